-- Changes attributes of jobs in the queue (condor_qedit): changes is an object in HTCondor's JSON form, null
-- removes an attribute. An Idle job whose attributes for matching change moves to its new autocluster, at the
-- same position, so that an edit does not cost it its turn. Owner can't be changed. Returns how many jobs
-- were changed.
-- The jobs are changed together: checks that depend on few attributes (rights, autocluster) are made once for
-- all jobs that are alike in these, as in submit_cluster. A job that a claim is taking at the moment is
-- claimed as it was.
-- Errors: as for submit, ceilings too. Locks: the jobs, in the order of their ids (selected_jobs).
CREATE OR REPLACE FUNCTION fetchwork.edit(
    jobs text [], changes jsonb, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    checked jsonb;
    -- of late clusters
    factories integer[] := fetchwork.selected_factories(jobs, edit.owner, role);
    limits jsonb;
    asked text := changes::text;
    refused text;
    -- the changes in HTCondor's spelling, and those that the ads may spell otherwise
    known jsonb;
    unknown jsonb;
    clusters integer[];
    procs integer[];
    old_autoclusters integer[];
    old_batches integer[];
    old_prios integer[];
    -- JobBatchName is a literal, so it is the same for all jobs of an owner
    owners text[];
    owners_of_jobs text[];
    batches integer[];
    -- jobs that are Idle and wait for a retry's delay, which an edit of their time does not cut short
    delayed boolean[];
    alike record;
    of_cluster record;
    edited_proc integer;
    ctids tid[];
    names text[];
    whole jsonb;
    new_autocluster integer;
    timed boolean;
    shared_bytes integer;
    max_bytes integer := fetchwork.setting_value('max_ad_bytes');
BEGIN
    SELECT
        coalesce(jsonb_object_agg(lower(c.key), c.value) FILTER (WHERE l.is_limit), '{}'),
        coalesce(jsonb_object_agg(c.key, c.value) FILTER (WHERE NOT l.is_limit), '{}')
    INTO limits, changes
    FROM jsonb_each(changes) AS c
    CROSS JOIN LATERAL (
        SELECT lower(c.key) IN ('jobmaterializelimit', 'jobmaterializemaxidle') AS is_limit
    ) AS l;
    checked := fetchwork.checked_ad(changes);
    SELECT k.key
    INTO refused
    FROM jsonb_object_keys(changes) AS k (key)
    WHERE lower(k.key) = 'owner'
        OR (
            NOT EXISTS (SELECT FROM jsonb_object_keys(checked) AS c (key) WHERE lower(c.key) = lower(k.key))
            -- checked_ad drops these if they have no effect
            AND lower(k.key) NOT IN (
                'onexithold', 'periodichold', 'periodicrelease', 'periodicremove', 'periodicvacate',
                'leavejobinqueue', 'onexitremove', 'rank', 'whentotransferoutput', 'transferout',
                'transfererr', 'transferoutputremaps', 'outputdestination', 'transferplugins'
            )
        )
        -- the input files were read at submit
        OR lower(k.key) IN (
            'shouldtransferfiles', 'transferexecutable', 'transferin', 'transferinput', 'publicinputfiles',
            'preserverelativepaths', 'fetchworkfiles'
        )
    LIMIT 1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'attribute "%" can''t be edited; allowed: what a submitter sets, but for input files',
            refused USING ERRCODE = 'FWINV';
    END IF;
    SELECT
        coalesce(jsonb_object_agg(a.name, e.value) FILTER (WHERE a.key IS NOT NULL), '{}'),
        coalesce(jsonb_object_agg(e.key, e.value) FILTER (WHERE a.key IS NULL), '{}')
    INTO known, unknown
    FROM jsonb_each(changes) AS e
    LEFT JOIN fetchwork.attribute AS a ON a.key = lower(e.key);

    IF factories <> '{}' OR limits <> '{}' THEN
        PERFORM fetchwork.edit_factories(factories, limits, known || unknown, role);
    END IF;
    SELECT
        array_agg(s.cluster_id), array_agg(s.proc_id), array_agg(s.autocluster_id), array_agg(s.batch_id),
        array_agg(s.job_prio), array_agg(DISTINCT s.owner), array_agg(s.owner)
    INTO clusters, procs, old_autoclusters, old_batches, old_prios, owners, owners_of_jobs
    FROM fetchwork.selected_jobs(jobs, edit.owner, role, gone_ok) AS s
    WHERE s.job_status <> 3;
    IF clusters IS NULL THEN
        PERFORM fetchwork.materialize(f.cluster_id)
        FROM unnest(factories) AS f (cluster_id);
        RETURN cardinality(factories);
    END IF;
    PERFORM fetchwork.note_job_action('edit', clusters, procs, owners_of_jobs, asked);
    IF changes = '{}' THEN
        PERFORM fetchwork.materialize(f.cluster_id)
        FROM unnest(factories) AS f (cluster_id);
        RETURN cardinality(clusters);
    END IF;
    timed := EXISTS (
        SELECT FROM jsonb_object_keys(known) AS k (key)
        WHERE k.key ~ '^(Deferral|Cron|FetchWorkTimeZone)'
    );
    IF timed THEN
        SELECT array_agg(
            j.not_before IS NOT NULL
            AND j.not_before IS DISTINCT FROM (fetchwork.deferral(c.ad || j.ad)).offered_at
            ORDER BY k.number
        )
        INTO delayed
        FROM unnest(clusters, procs) WITH ORDINALITY AS k (cluster_id, proc_id, number)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id;
    END IF;
    IF known ->> 'JobBatchName' IS NOT NULL THEN
        SELECT array_agg(fetchwork.ensure_batch(o.name, known ->> 'JobBatchName'))
        INTO batches
        FROM unnest(owners) AS o (name);
    END IF;

    ctids := fetchwork.job_rows(clusters, procs);
    UPDATE fetchwork.job AS j
    SET (ad, batch_id, job_prio, queue, has_policy) = (
        SELECT
            e.own,
            CASE
                WHEN NOT known ? 'JobBatchName' THEN j.batch_id
                ELSE batches[array_position(owners, j.owner)]
            END,
            coalesce((e.whole ->> 'JobPrio')::integer, 0),
            coalesce(e.whole ->> 'FetchWorkQueue', 'default'),
            -- an ended job leaves when an agent finds that nothing keeps it
            fetchwork.has_policy(e.whole) OR j.job_status = 4
        FROM (
            SELECT o.own, jsonb_strip_nulls(o.shared || o.own) AS whole
            FROM (
                SELECT
                    c.ad AS shared,
                    j.ad || known || CASE
                        WHEN unknown = '{}' THEN unknown
                        -- in the spelling that the job has already
                        ELSE (
                            SELECT jsonb_object_agg(coalesce(s.key, u.key), u.value)
                            FROM jsonb_each(unknown) AS u
                            LEFT JOIN jsonb_object_keys(c.ad || j.ad) AS s (key)
                                ON lower(s.key) = lower(u.key)
                        )
                    END AS own
                FROM fetchwork.cluster AS c
                WHERE c.cluster_id = j.cluster_id
                -- so that each ad is computed once, and not for each of its uses
                OFFSET 0
            ) AS o
            OFFSET 0
        ) AS e
    )
    WHERE j.ctid = ANY (ctids);

    -- check one job of each group with equal rights and form, and each job that may now be too large
    PERFORM fetchwork.checked_job(w.whole, role)
    FROM (
        SELECT DISTINCT ON (k.cluster_id, m.part)
            jsonb_strip_nulls(
                (SELECT c.ad FROM fetchwork.cluster AS c WHERE c.cluster_id = k.cluster_id) || j.ad
            ) AS whole
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        CROSS JOIN LATERAL (
            SELECT jsonb_object_agg(e.key, e.value) AS part
            FROM jsonb_each(j.ad) AS e
            WHERE e.key = ANY (fetchwork.checked_names())
        ) AS m
    ) AS w;
    SELECT max(octet_length(c.ad::text))
    INTO shared_bytes
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = ANY (ARRAY(SELECT DISTINCT k.id FROM unnest(clusters) AS k (id)));
    PERFORM fetchwork.checked_job(w.whole, role)
    FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    CROSS JOIN LATERAL (
        SELECT jsonb_strip_nulls(c.ad || j.ad) AS whole
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = k.cluster_id
        OFFSET 0
    ) AS w
    -- printed JSON is at most twelve times as long
    WHERE CASE
        WHEN 700 + 12::bigint * (shared_bytes + octet_length(j.ad::text)) > max_bytes
            THEN fetchwork.printed_size(w.whole) > max_bytes
        ELSE false
    END;

    -- one autocluster for all jobs of a cluster with equal own attributes for matching; an expression among
    -- these may refer to any other attribute
    FOR of_cluster IN
        SELECT k.id, array_agg(k.proc_id) AS procs
        FROM unnest(clusters, procs) AS k (id, proc_id)
        GROUP BY k.id
        ORDER BY k.id
    LOOP
        SELECT fetchwork.matched_names(c.ad)
        INTO names
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = of_cluster.id;
        FOR alike IN
            SELECT a.ad, array_agg(a.proc_id) AS procs
            FROM (
                SELECT
                    j.proc_id,
                    CASE
                        WHEN jsonb_path_exists(m.part, '$.* ? (@ starts with "/Expr(")') THEN j.ad
                        ELSE m.part
                    END AS ad
                FROM unnest(of_cluster.procs) AS k (proc_id)
                CROSS JOIN LATERAL fetchwork.job_of(of_cluster.id, k.proc_id) AS j
                CROSS JOIN LATERAL (
                    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') AS part
                    FROM jsonb_each(j.ad) AS e
                    WHERE lower(e.key) = ANY (names) OR lower(e.key) LIKE 'request%'
                ) AS m
            ) AS a
            GROUP BY a.ad
        LOOP
            SELECT jsonb_strip_nulls(c.ad || alike.ad)
            INTO whole
            FROM fetchwork.cluster AS c
            WHERE c.cluster_id = of_cluster.id;
            -- attributes that the queue keeps differ from job to job
            IF EXISTS (
                SELECT FROM fetchwork.attribute AS t
                WHERE t.key = ANY (fetchwork.matched_names(whole)) AND t.rule IN ('ours', 'unhonoured')
            ) THEN
                FOREACH edited_proc IN ARRAY alike.procs LOOP
                    UPDATE fetchwork.job AS j
                    SET autocluster_id = fetchwork.ensure_autocluster(whole, j)
                    WHERE j.cluster_id = of_cluster.id AND j.proc_id = edited_proc;
                END LOOP;
            ELSE
                new_autocluster := fetchwork.ensure_autocluster(whole, NULL);
                ctids := fetchwork.job_rows(
                    array_fill(of_cluster.id, ARRAY[cardinality(alike.procs)]), alike.procs
                );
                UPDATE fetchwork.job AS j
                SET autocluster_id = new_autocluster
                WHERE j.ctid = ANY (ctids) AND j.autocluster_id <> new_autocluster;
            END IF;
        END LOOP;
    END LOOP;
    PERFORM fetchwork.move_jobs(clusters, procs, old_autoclusters, old_batches, old_prios);
    PERFORM fetchwork.check_ceilings(array_agg(g.autocluster_id), array_agg(g.added), array_agg(g.idle))
    FROM (
        SELECT m.autocluster_id, sum(m.added) AS added, sum(m.idle) AS idle
        FROM unnest(clusters, procs, old_autoclusters) AS k (cluster_id, proc_id, autocluster_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        CROSS JOIN LATERAL (
            VALUES
                (j.autocluster_id, 1, (j.job_status = 1)::integer),
                -- a submitter or group that had the job before does not get one more by it
                (k.autocluster_id, 0, -(j.job_status = 1)::integer)
        ) AS m (autocluster_id, added, idle)
        -- an ended job no longer counts
        WHERE j.autocluster_id <> k.autocluster_id AND j.job_status <> 4
        GROUP BY m.autocluster_id
    ) AS g;
    IF timed THEN
        -- a job gets a new time, unless a slot has it; one that waits for a delay gets it afterwards (wake)
        ctids := fetchwork.job_rows(clusters, procs);
        UPDATE fetchwork.job AS j
        SET ad = j.ad - 'DeferralTime'
        WHERE j.ctid = ANY (ctids)
            AND NOT known ? 'DeferralTime'
            AND (
                SELECT fetchwork.has_cron(c.ad || j.ad)
                FROM fetchwork.cluster AS c
                WHERE c.cluster_id = j.cluster_id
            );
        PERFORM fetchwork.enqueue(t.cluster_id, t.proc_id)
        FROM (
            SELECT k.cluster_id, k.proc_id
            FROM unnest(clusters, procs, delayed) AS k (cluster_id, proc_id, is_delayed)
            CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
            WHERE NOT k.is_delayed
                AND CASE
                    WHEN j.job_status = 1 THEN j.not_before IS NOT NULL
                        OR fetchwork.dequeue_jobs(ARRAY[j.cluster_id], ARRAY[j.proc_id]) > 0
                END
        ) AS t;
    END IF;
    PERFORM fetchwork.materialize(f.cluster_id)
    FROM unnest(factories) AS f (cluster_id);
    RETURN cardinality(clusters);
END
$$;
