-- Takes the scheduler-universe job out of the queue that has waited longest for this access point: a run that
-- is reserved for it. No row if none waits. The access point then starts it by "start", as an agent does,
-- keeps it by tend_scheduler_runs, and ends it by "finish": the fence, the lease and what becomes of the job
-- are those of every run.
--
-- Such a job takes no slot, so its run weighs nothing and no limit counts it. max_each: so many of one owner
-- run at a time; a job that is itself a node of a DAG is not counted, because the DAG around it waits for it.
--
-- Locks: the deleted row, passing over those of others (SKIP LOCKED): two access points of one name, which
-- should not be, take different jobs.
CREATE OR REPLACE FUNCTION fetchwork.claim_scheduler_job(
    access_point text,
    max_each integer,
    lease_s double precision
)
RETURNS TABLE (
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    owner text,
    ad jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
    taken record;
    point_id integer;
BEGIN
    IF NOT fetchwork.may_claim() THEN
        RETURN;
    END IF;
    DELETE FROM fetchwork.waiting AS w
    WHERE w.ctid = (
        SELECT h.ctid
        FROM fetchwork.autocluster AS a
        JOIN fetchwork.queue AS q ON q.name = a.queue AND NOT q.paused
        JOIN fetchwork.waiting AS h ON h.autocluster_id = a.autocluster_id
        JOIN fetchwork.cluster AS c ON c.cluster_id = h.cluster_id
        WHERE a.access_point = claim_scheduler_job.access_point
            AND fetchwork.runs_jobs_of(role, a.owner)
            AND (
                c.ad ? 'DAGManJobId'
                OR (
                    SELECT count(*)
                    FROM fetchwork.run AS r
                    JOIN fetchwork.autocluster AS o ON o.autocluster_id = r.autocluster_id
                    JOIN fetchwork.cluster AS d ON d.cluster_id = r.cluster_id AND NOT d.ad ? 'DAGManJobId'
                    WHERE o.access_point = a.access_point AND o.owner = a.owner
                ) < max_each
            )
        ORDER BY h.position
        LIMIT 1
        FOR UPDATE OF h SKIP LOCKED
    )
    RETURNING w.* INTO taken;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO fetchwork.host AS h (name, access_point)
    VALUES (format('access point %s', claim_scheduler_job.access_point), true)
    ON CONFLICT (name) DO NOTHING;
    SELECT h.host_id
    INTO point_id
    FROM fetchwork.host AS h
    WHERE h.name = format('access point %s', claim_scheduler_job.access_point);
    INSERT INTO fetchwork.run AS r (
        cluster_id, proc_id, autocluster_id, host_id, slot, weight, lease, deadline
    )
    VALUES (
        taken.cluster_id, taken.proc_id, taken.autocluster_id, point_id, 'scheduler', 0,
        make_interval(secs => lease_s), clock_timestamp() + interval '5 min'
    )
    RETURNING r.run_id, r.token INTO claim_scheduler_job.run_id, claim_scheduler_job.token;
    PERFORM fetchwork.end_demand(taken.autocluster_id, taken.job_prio);
    cluster_id := taken.cluster_id;
    proc_id := taken.proc_id;
    SELECT j.owner, c.ad || j.ad
    INTO claim_scheduler_job.owner, claim_scheduler_job.ad
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = taken.cluster_id AND j.proc_id = taken.proc_id;
    RETURN NEXT;
END
$$;
