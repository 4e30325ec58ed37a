-- Puts jobs into the queue that differ only in the attributes that are_like() allows, for submit_cluster,
-- which has checked the whole and made the cluster: for each a row of "job", one of "waiting" and a SUBMIT
-- event (000), without reading its ad. With on_hold they are Held with a HELD event (012) and do not wait.
-- Errors: FWDEN (more jobs than max_jobs_per_owner, a ceiling of the submitter). Locks: as submit_cluster.
CREATE OR REPLACE FUNCTION fetchwork.submit_like(
    cluster integer,
    first_proc integer,
    shared jsonb,
    procs jsonb [],
    autocluster integer,
    batch integer,
    on_hold boolean
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    prio integer := coalesce((shared ->> 'JobPrio')::integer, 0);
    job_owner text := shared ->> 'Owner';
    job_queue text := coalesce(shared ->> 'FetchWorkQueue', 'default');
    policy boolean := fetchwork.has_policy(shared);
    job_info jsonb := fetchwork.submission_info(shared, (
        SELECT f.submit_host
        FROM fetchwork.factory AS f
        WHERE f.cluster_id = submit_like.cluster
    ));
    number integer := cardinality(procs);
    -- that of all jobs of a late cluster
    submitted_at timestamptz := (
        SELECT c.submitted_at
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = submit_like.cluster
    );
BEGIN
    WITH added AS (
        INSERT INTO fetchwork.job (
            cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, position, q_date,
            owner, queue, has_policy,
            hold_reason, hold_code, hold_subcode, num_holds, facts, ad
        )
        SELECT
            submit_like.cluster, first_proc + p.n - 1, CASE WHEN on_hold THEN 5 ELSE 1 END, prio,
            autocluster, batch, CASE WHEN NOT on_hold THEN nextval('fetchwork.position') END, submitted_at,
            job_owner, job_queue, policy,
            CASE WHEN on_hold THEN 'submitted on hold at user''s request' END,
            CASE WHEN on_hold THEN 15 END,
            CASE WHEN on_hold THEN 0 END,
            CASE WHEN on_hold THEN 1 ELSE 0 END,
            CASE WHEN on_hold THEN '{"NumHoldsByReason": {"SubmittedOnHold": 1}}'::jsonb ELSE '{}' END,
            p.ad
        FROM unnest(procs) WITH ORDINALITY AS p (ad, n)
        RETURNING proc_id, position
    ),
    queued AS (
        INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
        SELECT autocluster, prio, a.position, submit_like.cluster, a.proc_id
        FROM added AS a
        WHERE a.position IS NOT NULL
    )
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT 0, submit_like.cluster, a.proc_id, job_info
    FROM added AS a;

    INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held, owner)
    VALUES (autocluster, batch, number, CASE WHEN on_hold THEN number ELSE 0 END, job_owner);
    PERFORM fetchwork.check_owner(job_owner);
    PERFORM fetchwork.check_ceilings(
        ARRAY[autocluster], ARRAY[number], ARRAY[CASE WHEN on_hold THEN 0 ELSE number END]
    );

    IF on_hold THEN
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        SELECT
            12, j.cluster_id, j.proc_id,
            jsonb_build_object('HoldReason', j.hold_reason, 'HoldReasonCode', 15, 'HoldReasonSubCode', 0)
        FROM fetchwork.job AS j
        WHERE j.cluster_id = submit_like.cluster AND j.proc_id >= first_proc
        ORDER BY j.proc_id;
    ELSE
        PERFORM fetchwork.ensure_demand(autocluster, prio, number);
    END IF;
END
$$;
