-- The jobs that a caller names: ids ("42.0", "42" for a whole cluster), and/or all of an owner; each once,
-- locked, and only those that the invoker may change. An id that names none of those raises FWNOT: another
-- user's job does not exist for the caller.
-- Locks: the jobs, in the order of their ids however they were named, so that two callers with many jobs
-- don't wait for each other.
CREATE OR REPLACE FUNCTION fetchwork.selected_jobs(jobs text [], owner text, role name)
RETURNS SETOF fetchwork.job
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    own text[] := fetchwork.own_owners(role);
    may_change_all boolean := fetchwork.is_admin(role);
    missing text;
BEGIN
    IF jobs IS NULL AND selected_jobs.owner IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = 'no job was named; allowed: job ids, an owner, or both';
    END IF;
    IF jobs IS NULL THEN
        IF NOT may_change_all AND NOT selected_jobs.owner = ANY (own) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'FWDEN',
                MESSAGE = format('role %L may not change jobs of Owner %L', role, selected_jobs.owner);
        END IF;
        RETURN QUERY
        SELECT j.*
        FROM fetchwork.job AS j
        WHERE j.owner = selected_jobs.owner
        ORDER BY j.cluster_id, j.proc_id
        FOR UPDATE;
        RETURN;
    END IF;
    SELECT n.name
    INTO missing
    FROM unnest(jobs) AS n (name)
    CROSS JOIN LATERAL fetchwork.parse_job_id(n.name) AS id
    WHERE NOT EXISTS (
        SELECT FROM fetchwork.job AS j
        WHERE j.cluster_id = id.cluster_id
            AND (id.proc_id IS NULL OR j.proc_id = id.proc_id)
            AND (may_change_all OR j.owner = ANY (own))
    )
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'FWNOT', MESSAGE = format('job %s is not in the queue', missing);
    END IF;
    RETURN QUERY
    SELECT j.*
    FROM fetchwork.job AS j
    WHERE (j.cluster_id, j.proc_id) IN (
            SELECT k.cluster_id, k.proc_id
            FROM unnest(jobs) AS n (name)
            CROSS JOIN LATERAL fetchwork.parse_job_id(n.name) AS id
            JOIN fetchwork.job AS k ON k.cluster_id = id.cluster_id
                AND (id.proc_id IS NULL OR k.proc_id = id.proc_id)
        )
        AND (may_change_all OR j.owner = ANY (own))
        AND (selected_jobs.owner IS NULL OR j.owner = selected_jobs.owner)
    ORDER BY j.cluster_id, j.proc_id
    FOR UPDATE OF j;
END
$$;
