-- Acknowledges that the outputs of this run of a job were delivered: deletes them and those of earlier runs,
-- and counts an end of the job that waited for the delivery (brought). False if there was nothing of that
-- run, as when it is acknowledged twice.
-- Events: those of settle_exit. Errors: FWNOT (no job of an Owner that the caller may name).
-- Locks: the deleted rows, without waiting for a run, because outputs of a live run belong to a later run;
-- the job, if its end waited.
CREATE OR REPLACE FUNCTION fetchwork.drop_outputs(cluster integer, proc integer, run_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    dropped bigint[];
    was_there boolean;
BEGIN
    PERFORM FROM fetchwork.known_job AS j
    WHERE j.cluster_id = drop_outputs.cluster
        AND j.proc_id = drop_outputs.proc
        AND (fetchwork.is_admin(role) OR j.owner = ANY (fetchwork.own_owners(role)));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not known',
            fetchwork.job_id(drop_outputs.cluster, drop_outputs.proc) USING ERRCODE = 'FWNOT';
    END IF;
    -- only outputs that are ready: a live run's rows belong to its agent
    IF NOT coalesce(
        drop_outputs.run_id <= fetchwork.ready_outputs(drop_outputs.cluster, drop_outputs.proc), false
    ) THEN
        RETURN false;
    END IF;
    WITH gone AS (
        DELETE FROM fetchwork.job_file AS f
        WHERE f.cluster_id = drop_outputs.cluster
            AND f.proc_id = drop_outputs.proc
            AND f.direction = 'output'
            AND f.run_id <= drop_outputs.run_id
        RETURNING f.content_id, f.run_id
    )
    SELECT array_agg(DISTINCT g.content_id), bool_or(g.run_id = drop_outputs.run_id)
    INTO dropped, was_there
    FROM gone AS g;
    PERFORM fetchwork.delete_contents(dropped);
    PERFORM fetchwork.brought(drop_outputs.cluster, drop_outputs.proc, drop_outputs.run_id);
    RETURN coalesce(was_there, false);
END
$$;
