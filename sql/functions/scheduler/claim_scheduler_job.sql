-- Claims the scheduler-universe job that has waited longest for this access point: a run that is reserved for
-- it. No row if none waits. The access point then starts it by "start", as an agent does, renews it by
-- tend_scheduler_runs, and ends it by "finish": fence, lease and the end of the job are those of every run.
-- Such a job takes no slot, so its run weighs nothing and no limit counts it.
-- max_each: the number of one owner's jobs that may run outside of DAGs, and in each DAG that runs here. A
-- DAG waits only for the DAGs in it, and these for those in them, so that nested DAGs, however many, never
-- wait for themselves.
-- Locks: the deleted row; SKIP LOCKED skips others' rows: two access points of one name, which should not
-- exist, claim different jobs.
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
    WITH full_dags AS MATERIALIZED (
        SELECT o.owner, fetchwork.dag_around(d.ad, o.owner, o.access_point) AS dag
        FROM fetchwork.host AS h
        JOIN fetchwork.run AS r ON r.host_id = h.host_id
        JOIN fetchwork.autocluster AS o ON o.autocluster_id = r.autocluster_id
        JOIN fetchwork.cluster AS d ON d.cluster_id = r.cluster_id
        WHERE h.name = format('access point %s', claim_scheduler_job.access_point)
            AND o.access_point = claim_scheduler_job.access_point
        GROUP BY 1, 2
        HAVING count(*) >= max_each
    )
    DELETE FROM fetchwork.waiting AS w
    WHERE w.ctid = (
        SELECT h.ctid
        FROM fetchwork.autocluster AS a
        JOIN fetchwork.queue AS q ON q.name = a.queue AND NOT q.paused
        JOIN fetchwork.waiting AS h ON h.autocluster_id = a.autocluster_id
        JOIN fetchwork.cluster AS c ON c.cluster_id = h.cluster_id
        WHERE a.access_point = claim_scheduler_job.access_point
            AND fetchwork.runs_jobs_of(role, a.owner)
            AND NOT EXISTS (
                SELECT FROM full_dags AS f
                WHERE f.owner = a.owner
                    AND f.dag IS NOT DISTINCT FROM fetchwork.dag_around(c.ad, a.owner, a.access_point)
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
