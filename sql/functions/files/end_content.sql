-- Completes a content, so that jobs can name it. If its chunks do not match it, deletes it so that it can be
-- begun anew, and returns false. Repeating a call is harmless.
-- Errors: FWNOT (no such content of an Owner that the caller may name).
CREATE OR REPLACE FUNCTION fetchwork.end_content(content_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content := fetchwork.writable_content(end_content.content_id, NULL, NULL);
BEGIN
    PERFORM fetchwork.complete_content(stored.content_id);
    RETURN true;
EXCEPTION
    WHEN SQLSTATE 'FWINV' THEN
        PERFORM fetchwork.delete_contents(ARRAY[stored.content_id]);
        RETURN false;
END
$$;
