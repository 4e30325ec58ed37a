-- Puts one cluster of jobs into the queue and returns its id: job n gets the ad "common || procs[n]" and
-- ProcId n - 1. Every way to submit calls it (the other submit functions, CLI, Python), so it checks
-- everything. The common part is stored once; a million jobs that differ in their arguments cost a million
-- small rows and one autocluster. JobStatus 5 in the ad submits on hold (as "hold = true" in a submit
-- description).
-- cluster: an id from reserve_cluster, for ads that contain the id ($(ClusterId)), and for a cluster too
-- large for one call: the first call makes it, further calls of the same transaction append to it, with NULL
-- for common. NULL: a new id.
-- key: the caller's own name for this submission. The same key of the same Owner (that of the first job)
-- returns the first submission's cluster, for submission_days; the ads are not compared. While the first
-- call is under way, the second one waits.
-- Errors: FWINV (an invalid ad), FWDEN (no right to name that Owner or accounting group, a draining queue,
-- more jobs than max_jobs_per_submission or max_jobs_per_owner, a ceiling of the submitter). Events: SUBMIT
-- (000) for each job, HELD (012).
-- Locks: KEY SHARE on demand rows, until commit.
CREATE OR REPLACE FUNCTION fetchwork.submit_cluster(
    common jsonb,
    procs jsonb [],
    cluster integer DEFAULT NULL,
    key text DEFAULT NULL
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    asking text := fetchwork.asker();
    its_owner text := coalesce(procs[1] ->> 'Owner', common ->> 'Owner');
    known integer;
    new_cluster integer;
    first_proc integer := 0;
    shared jsonb;
    own jsonb;
    checked jsonb;
    whole jsonb;
    on_hold boolean;
    timed boolean;
    timed_procs integer[] := '{}';
    common_on_hold boolean;
    common_autocluster integer;
    common_names text[];
    common_batch integer;
    job_autocluster integer;
    new_job fetchwork.job;
    looks_at_queue boolean;
    room bigint;
    most_jobs bigint;
    job_batch integer;
    n integer := 0;
BEGIN
    IF coalesce(cardinality(procs), 0) = 0 THEN
        RAISE EXCEPTION 'there are no jobs to submit; allowed: one ad or more' USING ERRCODE = 'FWINV';
    END IF;
    SELECT
        fetchwork.setting_value('max_jobs_per_submission'),
        (
            SELECT s.cluster_id
            FROM fetchwork.submission AS s
            WHERE s.owner = its_owner AND s.key = submit_cluster.key
        )
    INTO most_jobs, known;
    -- before all checks: a limit that has been reached since does not change the answer
    IF known IS NOT NULL
        -- a name in another spelling may give another Owner
        AND its_owner = coalesce(
            fetchwork.attribute_of(procs[1], 'owner') #>> '{}',
            fetchwork.attribute_of(common, 'owner') #>> '{}'
        )
        AND (fetchwork.is_admin(role) OR its_owner = ANY (fetchwork.own_owners(role)))
    THEN
        RETURN known;
    END IF;
    IF cluster IS NOT NULL AND common IS NULL THEN
        -- only the transaction that made the cluster may append: others see the cluster after its commit
        SELECT
            c.cluster_id, c.ad,
            (SELECT max(j.proc_id) + 1 FROM fetchwork.job AS j WHERE j.cluster_id = c.cluster_id)
        INTO new_cluster, shared, first_proc
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = submit_cluster.cluster AND c.submitted_by = asking AND c.submitted_at = now();
        IF first_proc IS NULL THEN
            RAISE EXCEPTION 'cluster % was not made in this transaction; allowed: append right after making '
                'it',
                cluster USING ERRCODE = 'FWINV';
        END IF;
        -- on hold like the jobs before them
        SELECT j.job_status = 5
        INTO common_on_hold
        FROM fetchwork.job AS j
        WHERE j.cluster_id = new_cluster AND j.proc_id = 0;
        UPDATE fetchwork.cluster AS c
        SET procs = first_proc + cardinality(submit_cluster.procs)
        WHERE c.cluster_id = new_cluster;
    ELSE
        shared := fetchwork.checked_ad(common);
        common_on_hold := coalesce(fetchwork.attribute_of(common, 'jobstatus') = '5', false);
        DELETE FROM fetchwork.cluster_reservation AS r
        WHERE r.cluster_id = submit_cluster.cluster
            AND r.role = asking
            AND r.reserved_at >= now() - fetchwork.setting_time('cluster_reservation');
        IF cluster IS NOT NULL AND NOT FOUND THEN
            RAISE EXCEPTION 'cluster id % was not reserved; allowed: an unused one from '
                'fetchwork.reserve_cluster()',
                cluster USING ERRCODE = 'FWINV';
        END IF;
        INSERT INTO fetchwork.cluster (cluster_id, ad, procs, submitted_by)
        VALUES (coalesce(new_cluster, cluster, fetchwork.next_cluster()), shared, cardinality(procs), asking)
        RETURNING cluster_id INTO new_cluster;
    END IF;
    n := first_proc;
    IF first_proc + cardinality(procs) > most_jobs THEN
        RAISE EXCEPTION 'Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION: % jobs in one '
            'cluster; allowed: % (setting max_jobs_per_submission)',
            first_proc + cardinality(procs), most_jobs USING ERRCODE = 'FWDEN';
    END IF;
    -- the columns that queue_attributes reads of a job, which is not in the table yet
    new_job.q_date := now();
    new_job.status_at := now();
    new_job.num_starts := 0;
    new_job.num_completions := 0;
    new_job.num_holds := 0;
    new_job.wall_s := 0;
    new_job.user_cpu_s := 0;
    new_job.sys_cpu_s := 0;
    new_job.facts := '{}';
    common_names := fetchwork.matched_names(shared);
    looks_at_queue := EXISTS (
        SELECT FROM fetchwork.attribute AS t
        WHERE t.key = ANY (common_names) AND t.rule = 'ours'
    );

    -- a printed job is at most 11 times as long as its own part plus 140 bytes
    room := least(
        (
            fetchwork.setting_value('max_ad_bytes') - fetchwork.printed_size(shared) - 140
        ) / 11,
        fetchwork.setting_value('max_attribute_bytes'),
        fetchwork.setting_value('max_job_bytes')
    );
    IF NOT looks_at_queue
        AND NOT fetchwork.is_timed(shared)
        AND NOT common_names && ARRAY['args', 'arguments', 'env', 'environment', 'in', 'out', 'err']
        AND fetchwork.are_like(procs, room)
    THEN
        PERFORM fetchwork.checked_job(shared || procs[1], role);
        IF key IS NOT NULL THEN
            known := fetchwork.note_key(shared ->> 'Owner', key, new_cluster);
            IF known <> new_cluster THEN
                DELETE FROM fetchwork.cluster AS c
                WHERE c.cluster_id = new_cluster;
                RETURN known;
            END IF;
        END IF;
        new_job.cluster_id := new_cluster;
        new_job.proc_id := n;
        new_job.owner := shared ->> 'Owner';
        PERFORM fetchwork.submit_like(
            new_cluster,
            first_proc,
            shared,
            procs,
            fetchwork.ensure_autocluster(shared, new_job),
            CASE
                WHEN jsonb_typeof(shared -> 'JobBatchName') = 'string'
                    THEN fetchwork.ensure_batch(shared ->> 'Owner', shared ->> 'JobBatchName')
            END,
            common_on_hold
        );
        RETURN new_cluster;
    END IF;

    -- Make rows of several batches in one order, so that two such submissions can't deadlock; names that the
    -- caller may not use are refused below.
    IF cardinality(procs) > 1 AND EXISTS (
        SELECT FROM unnest(procs) AS p (ad)
        WHERE p.ad ?| ARRAY['Owner', 'JobBatchName']
    ) THEN
        PERFORM fetchwork.ensure_batch(b.owner, b.name)
        FROM (
            SELECT DISTINCT w.ad ->> 'Owner' AS owner, w.ad ->> 'JobBatchName' AS name
            FROM (SELECT shared || p.ad FROM unnest(procs) AS p (ad)) AS w (ad)
            WHERE octet_length(w.ad ->> 'Owner') <= 64
                AND jsonb_typeof(w.ad -> 'JobBatchName') = 'string'
                AND octet_length(w.ad ->> 'JobBatchName') <= 2000
            ORDER BY 1, 2
        ) AS b;
    END IF;

    FOREACH own IN ARRAY procs LOOP
        checked := fetchwork.checked_ad(own);
        on_hold := CASE
            WHEN own = '{}' THEN common_on_hold
            ELSE coalesce(fetchwork.attribute_of(own, 'jobstatus') = '5', common_on_hold)
        END;
        own := checked;
        -- an attribute spelled differently in the two parts would be there twice
        IF own <> '{}' THEN
            SELECT coalesce(jsonb_object_agg(coalesce(c.key, o.key), o.value), '{}')
            INTO own
            FROM jsonb_each(own) AS o
            LEFT JOIN jsonb_object_keys(shared) AS c (key) ON lower(c.key) = lower(o.key);
        END IF;
        whole := shared || own;
        IF fetchwork.has_cron(whole) THEN
            -- a time of day is in the submitter's time zone
            own := jsonb_build_object('FetchWorkTimeZone', current_setting('TimeZone'))
                || jsonb_strip_nulls(jsonb_build_object('FetchWorkTimeZone', shared -> 'FetchWorkTimeZone'))
                || own;
            whole := shared || own;
            own := own || jsonb_build_object(
                'DeferralTime', extract(epoch FROM fetchwork.next_cron_time(whole, clock_timestamp()))::bigint
            );
            whole := shared || own;
        END IF;
        timed := NOT on_hold AND fetchwork.is_timed(whole);
        IF timed THEN
            timed_procs := timed_procs || n;
        END IF;
        -- check rights and form of the whole again only if this job's own part could change the result
        IF n = first_proc OR own ?| fetchwork.checked_names() THEN
            PERFORM fetchwork.checked_job(whole, role);
        ELSIF own <> '{}' AND fetchwork.printed_size(whole) > fetchwork.setting_value('max_ad_bytes') THEN
            PERFORM fetchwork.checked_job(whole, role);
        END IF;
        IF n = first_proc AND key IS NOT NULL THEN
            known := fetchwork.note_key(whole ->> 'Owner', key, new_cluster);
            IF known <> new_cluster THEN
                DELETE FROM fetchwork.cluster AS c
                WHERE c.cluster_id = new_cluster;
                RETURN known;
            END IF;
        END IF;

        -- jobs that add no attribute for matching share the autocluster of the first of them
        new_job.cluster_id := new_cluster;
        new_job.proc_id := n;
        new_job.owner := whole ->> 'Owner';
        IF looks_at_queue OR EXISTS (
            SELECT FROM jsonb_object_keys(own) AS k (key)
            WHERE lower(k.key) = ANY (common_names) OR lower(k.key) LIKE 'request%'
        ) THEN
            job_autocluster := fetchwork.ensure_autocluster(whole, new_job);
        ELSE
            common_autocluster := coalesce(common_autocluster, fetchwork.ensure_autocluster(whole, new_job));
            job_autocluster := common_autocluster;
        END IF;

        job_batch := NULL;
        IF whole ? 'JobBatchName' AND jsonb_typeof(whole -> 'JobBatchName') = 'string' THEN
            IF own ? 'JobBatchName' OR own ? 'Owner' OR common_batch IS NULL THEN
                job_batch := fetchwork.ensure_batch(whole ->> 'Owner', whole ->> 'JobBatchName');
                IF NOT own ?| ARRAY['JobBatchName', 'Owner'] THEN
                    common_batch := job_batch;
                END IF;
            ELSE
                job_batch := common_batch;
            END IF;
        END IF;

        INSERT INTO fetchwork.job (
            cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, position,
            owner, queue, has_policy,
            hold_reason, hold_code, hold_subcode, num_holds, facts, ad
        )
        VALUES (
            new_cluster, n, CASE WHEN on_hold THEN 5 ELSE 1 END, coalesce((whole ->> 'JobPrio')::integer, 0),
            job_autocluster, job_batch,
            CASE WHEN NOT on_hold AND NOT timed THEN nextval('fetchwork.position') END,
            whole ->> 'Owner', coalesce(whole ->> 'FetchWorkQueue', 'default'), fetchwork.has_policy(whole),
            CASE WHEN on_hold THEN 'submitted on hold at user''s request' END,
            CASE WHEN on_hold THEN 15 END,
            CASE WHEN on_hold THEN 0 END,
            CASE WHEN on_hold THEN 1 ELSE 0 END,
            CASE WHEN on_hold THEN '{"NumHoldsByReason": {"SubmittedOnHold": 1}}'::jsonb ELSE '{}' END,
            own
        );
        n := n + 1;
    END LOOP;

    INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
    SELECT j.autocluster_id, j.job_prio, j.position, j.cluster_id, j.proc_id
    FROM fetchwork.job AS j
    WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc AND j.position IS NOT NULL;

    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, owner)
    SELECT j.autocluster_id, j.batch_id, count(*), count(*) FILTER (WHERE j.job_status = 5), j.owner
    FROM fetchwork.job AS j
    WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc
    GROUP BY j.autocluster_id, j.batch_id, j.owner;
    PERFORM fetchwork.check_owner(o.owner)
    FROM (
        SELECT DISTINCT j.owner
        FROM fetchwork.job AS j
        WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc
    ) AS o;
    PERFORM fetchwork.check_ceilings(array_agg(g.autocluster_id), array_agg(g.added), array_agg(g.idle))
    FROM (
        SELECT
            j.autocluster_id, count(*) AS added, count(*) FILTER (WHERE j.job_status = 1) AS idle
        FROM fetchwork.job AS j
        WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc
        GROUP BY j.autocluster_id
    ) AS g;

    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT 0, j.cluster_id, j.proc_id, fetchwork.submission_info(shared || j.ad)
    FROM fetchwork.job AS j
    WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc
    ORDER BY j.proc_id;

    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        12, j.cluster_id, j.proc_id,
        jsonb_build_object('HoldReason', j.hold_reason, 'HoldReasonCode', 15, 'HoldReasonSubCode', 0)
    FROM fetchwork.job AS j
    WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc AND j.job_status = 5
    ORDER BY j.proc_id;

    PERFORM fetchwork.ensure_demand(d.autocluster_id, d.job_prio, d.jobs)
    FROM (
        SELECT j.autocluster_id, j.job_prio, count(*) AS jobs
        FROM fetchwork.job AS j
        WHERE j.cluster_id = new_cluster AND j.proc_id >= first_proc AND j.position IS NOT NULL
        GROUP BY j.autocluster_id, j.job_prio
        -- in one order, so that two submitters can't deadlock
        ORDER BY j.autocluster_id, j.job_prio
    ) AS d;
    PERFORM fetchwork.enqueue(new_cluster, t.proc)
    FROM unnest(timed_procs) AS t (proc);
    RETURN new_cluster;
END
$$;
