-- The ended jobs of a batch among the latest ended jobs of its owner, of which it reads at most so many. None
-- if the caller may not see the owner's jobs.
CREATE OR REPLACE FUNCTION fetchwork.batch_ends(owner text, batch text, most integer)
RETURNS TABLE (
    jobid text,
    jobstatus integer,
    exitcode integer,
    exitsignal integer,
    wall double precision,
    slot text,
    completed_at timestamptz
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        fetchwork.job_id(l.cluster_id, l.proc_id),
        l.job_status::integer,
        l.exit_code,
        l.exit_signal,
        l.wall_s,
        coalesce(l.slot, l.facts ->> 'LastRemoteHost'),
        l.completed_at
    FROM (
        SELECT j.*
        FROM fetchwork.job_history AS j
        WHERE j.owner = batch_ends.owner
            AND (
                (SELECT fetchwork.sees_all(fetchwork.invoker()))
                OR j.owner = ANY ((SELECT fetchwork.own_owners(fetchwork.invoker()))::text [])
            )
        ORDER BY j.completed_at DESC
        LIMIT batch_ends.most
    ) AS l
    WHERE l.batch_id = (
        SELECT b.batch_id
        FROM fetchwork.batch AS b
        WHERE b.owner = batch_ends.owner AND b.name = batch_ends.batch
    );
END;
