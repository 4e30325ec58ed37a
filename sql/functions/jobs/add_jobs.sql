-- Puts jobs into a cluster, for submit_cluster and materialize: job n gets the ad "shared || procs[n]"
-- and the ProcId first_proc + n - 1, and if on_hold the JobStatus Held, unless its own part has another.
-- role: the submitter, whose rights to these ads are checked; null: they were checked when the cluster was
-- submitted. Returns the cluster, or that of an earlier submission with this key, and then adds no jobs.
-- Errors, events, locks: as submit_cluster.
CREATE OR REPLACE FUNCTION fetchwork.add_jobs(
    cluster integer,
    shared jsonb,
    first_proc integer,
    procs jsonb [],
    common_on_hold boolean,
    role name,
    key text DEFAULT NULL
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    own jsonb;
    checked jsonb;
    whole jsonb;
    on_hold boolean;
    timed boolean;
    timed_procs integer[] := '{}';
    common_autocluster integer;
    common_names text[];
    common_batch integer;
    job_autocluster integer;
    new_job fetchwork.job;
    looks_at_queue boolean;
    room bigint;
    job_batch integer;
    known integer;
    submit_host text := (
        SELECT f.submit_host
        FROM fetchwork.factory AS f
        WHERE f.cluster_id = add_jobs.cluster
    );
    n integer := first_proc;
BEGIN
    -- the columns that queue_attributes reads of a job, which is not in the table yet
    SELECT c.submitted_at
    INTO new_job.q_date
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = add_jobs.cluster;
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
        IF role IS NOT NULL THEN
            PERFORM fetchwork.checked_job(shared || procs[1], role);
        END IF;
        IF key IS NOT NULL THEN
            known := fetchwork.note_key(shared ->> 'Owner', key, cluster);
            IF known <> cluster THEN
                DELETE FROM fetchwork.cluster AS c
                WHERE c.cluster_id = add_jobs.cluster;
                RETURN known;
            END IF;
        END IF;
        new_job.cluster_id := cluster;
        new_job.proc_id := n;
        new_job.owner := shared ->> 'Owner';
        PERFORM fetchwork.submit_like(
            cluster,
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
        RETURN cluster;
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
        IF role IS NOT NULL AND (n = first_proc OR own ?| fetchwork.checked_names()) THEN
            PERFORM fetchwork.checked_job(whole, role);
        ELSIF own <> '{}' AND fetchwork.printed_size(whole) > fetchwork.setting_value('max_ad_bytes') THEN
            RAISE EXCEPTION 'the job ad is too large: up to % bytes when printed for the startd; allowed: % '
                '(setting max_ad_bytes, PIPE_BUFFER_MAX of the hosts)',
                fetchwork.printed_size(whole), fetchwork.setting_value('max_ad_bytes')
                USING ERRCODE = 'FWINV';
        END IF;

        IF n = first_proc AND key IS NOT NULL THEN
            known := fetchwork.note_key(whole ->> 'Owner', key, cluster);
            IF known <> cluster THEN
                DELETE FROM fetchwork.cluster AS c
                WHERE c.cluster_id = add_jobs.cluster;
                RETURN known;
            END IF;
        END IF;

        -- jobs that add no attribute for matching share the autocluster of the first of them
        new_job.cluster_id := cluster;
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
            cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, position, q_date,
            owner, queue, has_policy,
            hold_reason, hold_code, hold_subcode, num_holds, facts, ad
        )
        VALUES (
            cluster, n, CASE WHEN on_hold THEN 5 ELSE 1 END, coalesce((whole ->> 'JobPrio')::integer, 0),
            job_autocluster, job_batch,
            CASE WHEN NOT on_hold AND NOT timed THEN nextval('fetchwork.position') END, new_job.q_date,
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
    WHERE j.cluster_id = cluster AND j.proc_id >= first_proc AND j.position IS NOT NULL;

    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, owner)
    SELECT j.autocluster_id, j.batch_id, count(*), count(*) FILTER (WHERE j.job_status = 5), j.owner
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id >= first_proc
    GROUP BY j.autocluster_id, j.batch_id, j.owner;
    PERFORM fetchwork.check_owner(o.owner)
    FROM (
        SELECT DISTINCT j.owner
        FROM fetchwork.job AS j
        WHERE j.cluster_id = cluster AND j.proc_id >= first_proc
    ) AS o;
    PERFORM fetchwork.check_ceilings(array_agg(g.autocluster_id), array_agg(g.added), array_agg(g.idle))
    FROM (
        SELECT
            j.autocluster_id, count(*) AS added, count(*) FILTER (WHERE j.job_status = 1) AS idle
        FROM fetchwork.job AS j
        WHERE j.cluster_id = cluster AND j.proc_id >= first_proc
        GROUP BY j.autocluster_id
    ) AS g;

    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT 0, j.cluster_id, j.proc_id, fetchwork.submission_info(shared || j.ad, submit_host)
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id >= first_proc
    ORDER BY j.proc_id;

    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        12, j.cluster_id, j.proc_id,
        jsonb_build_object('HoldReason', j.hold_reason, 'HoldReasonCode', 15, 'HoldReasonSubCode', 0)
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id >= first_proc AND j.job_status = 5
    ORDER BY j.proc_id;

    PERFORM fetchwork.ensure_demand(d.autocluster_id, d.job_prio, d.jobs)
    FROM (
        SELECT j.autocluster_id, j.job_prio, count(*) AS jobs
        FROM fetchwork.job AS j
        WHERE j.cluster_id = cluster AND j.proc_id >= first_proc AND j.position IS NOT NULL
        GROUP BY j.autocluster_id, j.job_prio
        -- in one order, so that two submitters can't deadlock
        ORDER BY j.autocluster_id, j.job_prio
    ) AS d;
    PERFORM fetchwork.enqueue(cluster, t.proc)
    FROM unnest(timed_procs) AS t (proc);
    RETURN cluster;
END
$$;
