-- The live run whose files an agent transfers. NULLs if it has ended or never existed. Locks nothing: a
-- submitter's open transaction stops no transfer. Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.file_run(run_id bigint, token uuid)
RETURNS fetchwork.run
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    live fetchwork.run;
BEGIN
    SELECT r.*
    INTO live
    FROM fetchwork.run AS r
    WHERE r.run_id = file_run.run_id;
    IF FOUND AND NOT fetchwork.proves(file_run.token, live.token, live.host_id) THEN
        RAISE EXCEPTION 'the token is not that of run %', file_run.run_id USING ERRCODE = 'FWTOK';
    END IF;
    RETURN live;
END
$$;
