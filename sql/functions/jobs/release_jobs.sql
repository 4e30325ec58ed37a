-- Releases held jobs, for release() and for policy. A job whose run is still to end becomes Running in name
-- until that run's end puts it back into the queue; its HELD (012), which would have come then, comes now.
-- The others wait in the order of the arrays. Events: RELEASED (013). The caller has locked the jobs, which
-- are all Held.
CREATE OR REPLACE FUNCTION fetchwork.release_jobs(clusters integer [], procs integer [], reason text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    running_clusters integer[];
    running_procs integer[];
    waiting_clusters integer[];
    waiting_procs integer[];
    following_clusters integer[];
    following_procs integer[];
    old_autoclusters integer[];
    old_batches integer[];
    old_prios integer[];
    ctids tid[];
    positions bigint[];
    named record;
BEGIN
    SELECT
        array_agg(s.cluster_id ORDER BY s.nth) FILTER (WHERE s.has_run),
        array_agg(s.proc_id ORDER BY s.nth) FILTER (WHERE s.has_run),
        array_agg(s.cluster_id ORDER BY s.nth) FILTER (WHERE NOT s.has_run),
        array_agg(s.proc_id ORDER BY s.nth) FILTER (WHERE NOT s.has_run)
    INTO running_clusters, running_procs, waiting_clusters, waiting_procs
    FROM (
        SELECT
            k.*,
            -- not an EXISTS, which becomes a join (job_of)
            (
                SELECT r.run_id
                FROM fetchwork.run AS r
                WHERE r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
            ) IS NOT NULL AS has_run
        FROM unnest(clusters, procs) WITH ORDINALITY AS k (cluster_id, proc_id, nth)
    ) AS s;
    -- by their jobs, not by the rows' ctids (job_rows): beat() renews a run, which moves its row, while
    -- another transaction has locked its job
    FOR named IN SELECT k.* FROM unnest(running_clusters, running_procs) AS k (cluster_id, proc_id) LOOP
        UPDATE fetchwork.run AS r
        SET end_requested = 'vacate', job_status = 2
        WHERE r.cluster_id = named.cluster_id AND r.proc_id = named.proc_id;
    END LOOP;
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        12, j.cluster_id, j.proc_id,
        jsonb_build_object(
            'HoldReason', j.hold_reason,
            'HoldReasonCode', j.hold_code,
            'HoldReasonSubCode', j.hold_subcode,
            'RunEnding', true
        )
    FROM unnest(running_clusters, running_procs) AS k (cluster_id, proc_id)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j;

    -- in the order of the arrays; the update looks up each row's position by its ctid
    SELECT array_agg(n.ctid ORDER BY n.ctid), array_agg(n.position ORDER BY n.ctid)
    INTO ctids, positions
    FROM (
        SELECT j.ctid, CASE WHEN k.waits THEN nextval('fetchwork.position') END AS position
        FROM (
            SELECT w.cluster_id, w.proc_id, true AS waits
            FROM unnest(waiting_clusters, waiting_procs) AS w (cluster_id, proc_id)
            UNION ALL
            SELECT r.cluster_id, r.proc_id, false
            FROM unnest(running_clusters, running_procs) AS r (cluster_id, proc_id)
        ) AS k
        -- OFFSET 0: as in job_of
        CROSS JOIN LATERAL (
            SELECT j.ctid
            FROM fetchwork.job AS j
            WHERE j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
            OFFSET 0
        ) AS j
    ) AS n;
    UPDATE fetchwork.job AS j
    SET job_status = CASE WHEN positions[width_bucket(j.ctid, ctids)] IS NULL THEN 2 ELSE 1 END,
        position = coalesce(positions[width_bucket(j.ctid, ctids)], j.position),
        not_before = NULL,
        status_at = clock_timestamp(),
        facts = j.facts || jsonb_build_object(
            'LastJobStatus', 5,
            'ReleaseReason', coalesce(release_jobs.reason, '')
        ) || fetchwork.last_hold(5, j.hold_reason, j.hold_code, j.hold_subcode),
        hold_reason = NULL,
        hold_code = NULL,
        hold_subcode = NULL,
        num_not_started = 0,
        num_lost = 0
    WHERE j.ctid = ANY (ctids);
    WITH released AS (
        SELECT
            j.cluster_id, j.proc_id, j.job_status, j.job_prio, j.autocluster_id, j.batch_id, j.position
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    ),
    counted AS (
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, held)
        SELECT r.autocluster_id, r.batch_id, -count(*)
        FROM released AS r
        GROUP BY r.autocluster_id, r.batch_id
    ),
    queued AS (
        INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
        SELECT r.autocluster_id, r.job_prio, r.position, r.cluster_id, r.proc_id
        FROM released AS r
        WHERE r.job_status = 1
    )
    -- RunEnding tells a reader of the events that an EVICTED will come
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        13, r.cluster_id, r.proc_id,
        jsonb_build_object('Reason', release_jobs.reason)
            || CASE WHEN r.job_status = 2 THEN '{"RunEnding": true}' ELSE '{}' END::jsonb
    FROM released AS r;

    PERFORM fetchwork.ensure_demand(d.autocluster_id, d.job_prio, d.jobs)
    FROM (
        SELECT j.autocluster_id, j.job_prio, count(*) AS jobs
        FROM unnest(waiting_clusters, waiting_procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        GROUP BY j.autocluster_id, j.job_prio
        -- in one order, so that two callers can't wait for each other
        ORDER BY j.autocluster_id, j.job_prio
    ) AS d;

    -- a job that starts at a time enters the queue when it is time
    PERFORM fetchwork.enqueue(t.cluster_id, t.proc_id)
    FROM (
        SELECT k.cluster_id, k.proc_id
        FROM unnest(waiting_clusters, waiting_procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
        WHERE (
            SELECT CASE
                WHEN fetchwork.is_timed(c.ad || j.ad)
                    THEN fetchwork.dequeue_jobs(ARRAY[j.cluster_id], ARRAY[j.proc_id]) > 0
            END
            FROM fetchwork.cluster AS c
            WHERE c.cluster_id = k.cluster_id
        )
    ) AS t;

    -- as in enqueue: if matching reads attributes that change during a job's life, the job moves to the
    -- autocluster of their present values
    SELECT
        array_agg(j.cluster_id), array_agg(j.proc_id), array_agg(j.autocluster_id), array_agg(j.batch_id),
        array_agg(j.job_prio)
    INTO following_clusters, following_procs, old_autoclusters, old_batches, old_prios
    FROM unnest(waiting_clusters, waiting_procs) AS k (cluster_id, proc_id)
    CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
    WHERE (
        SELECT fetchwork.follows_job(a.ad)
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = j.autocluster_id
    );
    IF following_clusters IS NULL THEN
        RETURN;
    END IF;
    FOR named IN SELECT k.* FROM unnest(following_clusters, following_procs) AS k (cluster_id, proc_id) LOOP
        UPDATE fetchwork.job AS j
        SET autocluster_id = fetchwork.ensure_autocluster(c.ad || j.ad, j)
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = named.cluster_id
            AND j.cluster_id = named.cluster_id
            AND j.proc_id = named.proc_id;
    END LOOP;
    PERFORM fetchwork.move_jobs(
        following_clusters, following_procs, old_autoclusters, old_batches, old_prios
    );
END
$$;
