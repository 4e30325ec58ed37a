-- The latest runs that ended on a host in the last hour, at most so many. Only those of Owners that the
-- caller may see.
CREATE OR REPLACE FUNCTION fetchwork.host_ends(host text, most integer)
RETURNS TABLE (
    jobid text,
    owner text,
    remotehost text,
    outcome text,
    reason text,
    exitcode integer,
    exitsignal integer,
    started_at timestamptz,
    ended_at timestamptz
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        fetchwork.job_id(r.cluster_id, r.proc_id),
        r.owner,
        r.slot,
        r.outcome::text,
        r.reason,
        fetchwork.integer_of(r.report -> 'ExitCode'),
        fetchwork.integer_of(r.report -> 'ExitSignal'),
        r.started_at,
        r.ended_at
    FROM fetchwork.run_history AS r
    WHERE r.host_id = (SELECT h.host_id FROM fetchwork.host AS h WHERE h.name = host_ends.host)
        AND r.ended_at BETWEEN now() - interval '1 hour' AND 'infinity'
        AND (
            (SELECT fetchwork.sees_all(fetchwork.invoker()))
            OR r.owner = ANY ((SELECT fetchwork.own_owners(fetchwork.invoker()))::text [])
        )
    ORDER BY r.ended_at DESC
    LIMIT host_ends.most;
END;
