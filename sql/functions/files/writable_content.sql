-- The content that a caller may write: with run_id one of that live run, by its token (NULLs if the run is
-- over); without, one that a submitter stores, of an Owner that the caller may name.
-- Errors: FWTOK (another run's token), FWNOT (also for another's content, which does not exist for the
-- caller).
CREATE OR REPLACE FUNCTION fetchwork.writable_content(content_id bigint, run_id bigint, token uuid)
RETURNS fetchwork.content
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    role name := fetchwork.invoker();
    stored fetchwork.content;
BEGIN
    IF writable_content.run_id IS NOT NULL
        AND (fetchwork.file_run(writable_content.run_id, writable_content.token)).run_id IS NULL
    THEN
        RETURN NULL;
    END IF;
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = writable_content.content_id
        AND c.run_id IS NOT DISTINCT FROM writable_content.run_id
        AND (c.run_id IS NOT NULL OR fetchwork.is_admin(role) OR c.owner = ANY (fetchwork.own_owners(role)));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'content % is not there', writable_content.content_id USING ERRCODE = 'FWNOT';
    END IF;
    RETURN stored;
END
$$;
