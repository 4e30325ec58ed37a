-- The ended run with this id. Errors: FWNOT (no such run), FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.ended_run(run_id bigint, token uuid)
RETURNS fetchwork.run_history
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    ended fetchwork.run_history;
BEGIN
    SELECT h.*
    INTO ended
    FROM fetchwork.run_history AS h
    WHERE h.run_id = ended_run.run_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % is not known', ended_run.run_id USING ERRCODE = 'FWNOT';
    END IF;
    IF NOT fetchwork.proves(ended_run.token, ended.token, ended.host_id) THEN
        RAISE EXCEPTION 'the token is not that of run %', ended_run.run_id USING ERRCODE = 'FWTOK';
    END IF;
    RETURN ended;
END
$$;
