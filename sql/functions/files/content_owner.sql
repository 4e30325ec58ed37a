-- The Owner that a caller's contents belong to: with run_id the job's of that live run, by its token (NULL if
-- the run is over); without, the given Owner.
-- Errors: FWTOK (another run's token), FWDEN (an Owner that the caller may not name).
CREATE OR REPLACE FUNCTION fetchwork.content_owner(owner text, run_id bigint, token uuid)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    live fetchwork.run;
BEGIN
    IF content_owner.run_id IS NULL THEN
        PERFORM fetchwork.require_owner(content_owner.owner, 'keep or read files');
        RETURN content_owner.owner;
    END IF;
    live := fetchwork.file_run(content_owner.run_id, content_owner.token);
    RETURN (
        SELECT j.owner
        FROM fetchwork.job AS j
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id
    );
END
$$;
