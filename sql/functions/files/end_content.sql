-- Ends the storing of a content: from now on jobs can name it. One whose chunks do not make it goes, so that
-- it is begun anew; false then. Repeating it is harmless.
-- Errors: FWNOT (no such content of an Owner that the caller may name).
CREATE OR REPLACE FUNCTION fetchwork.end_content(content_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    stored fetchwork.content := fetchwork.own_content(end_content.content_id);
BEGIN
    PERFORM fetchwork.complete_content(stored.content_id);
    RETURN true;
EXCEPTION
    WHEN SQLSTATE 'FWINV' THEN
        PERFORM fetchwork.delete_contents(ARRAY[stored.content_id]);
        RETURN false;
END
$$;
