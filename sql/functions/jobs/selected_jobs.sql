-- The jobs that a caller names: ids ("42.0", "42" for a whole cluster, "42.-1" for the jobs of a late cluster
-- that are not made yet, which selected_factories finds), and/or all of an owner; each once,
-- locked, and only jobs that the invoker may change. Each id is looked up once by the key of "job": a call
-- costs time by its jobs, however large their clusters are.
-- Errors: FWNOT (an id without such jobs: others' jobs do not exist for the caller), FWDEN, FWINV.
-- With gone_ok an id without such jobs is skipped: jobs that a constraint selected may have ended.
-- Locks: the jobs, always in the order of their ids, so that two callers with many jobs don't deadlock.
CREATE OR REPLACE FUNCTION fetchwork.selected_jobs(jobs text [], owner text, role name, gone_ok boolean)
RETURNS SETOF fetchwork.job
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    own text[] := fetchwork.own_owners(role);
    may_change_all boolean := fetchwork.is_admin(role);
    whole_clusters integer[];
    clusters integer[];
    procs integer[];
    missing text;
BEGIN
    IF jobs IS NULL AND selected_jobs.owner IS NULL THEN
        RAISE EXCEPTION 'no job was named; allowed: job ids, an owner, or both' USING ERRCODE = 'FWINV';
    END IF;
    IF jobs IS NULL THEN
        IF NOT may_change_all AND NOT selected_jobs.owner = ANY (own) THEN
            RAISE EXCEPTION 'role % may not change jobs of Owner %',
                quote_nullable(role), quote_nullable(selected_jobs.owner) USING ERRCODE = 'FWDEN';
        END IF;
        RETURN QUERY
        SELECT j.*
        FROM fetchwork.job AS j
        WHERE j.owner = selected_jobs.owner
        ORDER BY j.cluster_id, j.proc_id
        FOR UPDATE;
        RETURN;
    END IF;
    SELECT
        array_agg(DISTINCT id.cluster_id) FILTER (WHERE id.proc_id IS NULL),
        array_agg(id.cluster_id) FILTER (WHERE id.proc_id IS NOT NULL),
        array_agg(id.proc_id) FILTER (WHERE id.proc_id IS NOT NULL)
    INTO whole_clusters, clusters, procs
    FROM (
        SELECT DISTINCT n.name
        FROM unnest(jobs) AS n (name)
        WHERE (n.name LIKE '%.-1') IS NOT true
    ) AS named
    CROSS JOIN LATERAL fetchwork.parse_job_id(named.name) AS id;

    SELECT n.name
    INTO missing
    FROM (
        SELECT fetchwork.job_id(k.cluster_id, k.proc_id)
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        -- not an EXISTS, which becomes a join (job_of)
        WHERE (
            SELECT may_change_all OR j.owner = ANY (own)
            FROM fetchwork.job AS j
            WHERE j.cluster_id = k.cluster_id AND j.proc_id = k.proc_id
        ) IS NOT TRUE
        UNION ALL
        SELECT k.cluster_id::text
        FROM unnest(whole_clusters) AS k (cluster_id)
        WHERE (
            SELECT true
            FROM fetchwork.job AS j
            WHERE j.cluster_id = k.cluster_id AND (may_change_all OR j.owner = ANY (own))
            LIMIT 1
        ) IS NULL
            -- a late cluster may have no jobs yet
            AND NOT EXISTS (
                SELECT FROM fetchwork.factory AS f
                WHERE f.cluster_id = k.cluster_id AND (may_change_all OR f.owner = ANY (own))
            )
    ) AS n (name)
    LIMIT 1;
    IF FOUND AND NOT gone_ok THEN
        RAISE EXCEPTION 'job % is not in the queue', missing USING ERRCODE = 'FWNOT';
    END IF;
    IF whole_clusters IS NOT NULL THEN
        SELECT clusters || array_agg(j.cluster_id), procs || array_agg(j.proc_id)
        INTO clusters, procs
        FROM fetchwork.job AS j
        WHERE j.cluster_id = ANY (whole_clusters);
    END IF;
    -- OFFSET 0: as in job_of
    RETURN QUERY
    SELECT locked.*
    FROM (
        SELECT DISTINCT k.cluster_id, k.proc_id
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        ORDER BY k.cluster_id, k.proc_id
    ) AS named
    CROSS JOIN LATERAL (
        SELECT j.*
        FROM fetchwork.job AS j
        WHERE j.cluster_id = named.cluster_id
            AND j.proc_id = named.proc_id
            AND (may_change_all OR j.owner = ANY (own))
            AND (selected_jobs.owner IS NULL OR j.owner = selected_jobs.owner)
        OFFSET 0
        FOR UPDATE
    ) AS locked;
END
$$;
