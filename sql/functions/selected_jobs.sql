-- The jobs that a person names: ids ("42.0", "42" for a whole cluster), and/or all of an owner. Locked, in one order, and only those that the invoker may
-- change; naming a single job that is not the invoker's raises FWDEN, one that is not there FWNOT.
CREATE OR REPLACE FUNCTION fetchwork.selected_jobs(jobs text [], owner text, role name)
RETURNS SETOF fetchwork.job
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    own text[] := fetchwork.own_owners(role);
    everyone boolean := fetchwork.is_admin(role);
    name text;
    id record;
    found_any boolean;
    its_owner text;
BEGIN
    IF jobs IS NULL AND selected_jobs.owner IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = 'no jobs named; allowed: job ids, an owner, or both';
    END IF;
    IF jobs IS NULL THEN
        IF NOT everyone AND NOT selected_jobs.owner = ANY (own) THEN
            RAISE EXCEPTION USING ERRCODE = 'FWDEN', MESSAGE = format('role %L may not change jobs of Owner %L', role, selected_jobs.owner);
        END IF;
        RETURN QUERY SELECT j.* FROM fetchwork.job AS j WHERE j.owner = selected_jobs.owner ORDER BY j.cluster_id, j.proc_id FOR UPDATE;
        RETURN;
    END IF;
    FOR name IN SELECT DISTINCT n FROM unnest(jobs) AS n ORDER BY n LOOP
        id := fetchwork.parse_job_id(name);
        SELECT j.owner INTO its_owner FROM fetchwork.job AS j WHERE j.cluster_id = id.cluster_id AND (id.proc_id IS NULL OR j.proc_id = id.proc_id) LIMIT 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'FWNOT', MESSAGE = format('job %s is not in the queue', name);
        END IF;
        found_any := false;
        FOR id IN SELECT id.cluster_id AS cluster_id, id.proc_id AS proc_id LOOP
            RETURN QUERY
            SELECT j.* FROM fetchwork.job AS j
            WHERE j.cluster_id = id.cluster_id AND (id.proc_id IS NULL OR j.proc_id = id.proc_id)
                AND (everyone OR j.owner = ANY (own)) AND (selected_jobs.owner IS NULL OR j.owner = selected_jobs.owner)
            ORDER BY j.proc_id
            FOR UPDATE;
            found_any := FOUND;
        END LOOP;
        IF NOT found_any AND NOT everyone AND NOT its_owner = ANY (own) THEN
            -- to a stranger a job that is not his does not exist
            RAISE EXCEPTION USING ERRCODE = 'FWNOT', MESSAGE = format('job %s is not in the queue', name);
        END IF;
    END LOOP;
END
$$;
