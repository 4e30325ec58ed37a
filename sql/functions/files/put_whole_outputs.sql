-- Stores a live run's contents that are not there yet, of at most one chunk each, in one call. The server
-- hashes them. Repeating a call is harmless. False if the run is over.
-- Errors: FWTOK (another run's token), FWDEN (a limit), FWINV (larger than a chunk, more than 1000).
-- Locks: only rows that nothing but the run's own agent locks.
CREATE OR REPLACE FUNCTION fetchwork.put_whole_outputs(run_id bigint, token uuid, datas bytea [])
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(put_whole_outputs.run_id, put_whole_outputs.token);
    of_owner text;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN false;
    END IF;
    SELECT j.owner
    INTO of_owner
    FROM fetchwork.job AS j
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    PERFORM fetchwork.add_whole_contents(of_owner, live.run_id, datas);
    RETURN true;
END
$$;
