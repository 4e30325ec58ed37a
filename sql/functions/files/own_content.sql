-- A content that a submitter stores, of an Owner that the caller may name. Errors: FWNOT (also for another's
-- content, which does not exist for the caller).
CREATE OR REPLACE FUNCTION fetchwork.own_content(content_id bigint)
RETURNS fetchwork.content
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    role name := fetchwork.invoker();
    stored fetchwork.content;
BEGIN
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = own_content.content_id
        AND c.run_id IS NULL
        AND (fetchwork.is_admin(role) OR c.owner = ANY (fetchwork.own_owners(role)));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'content % is not there', own_content.content_id USING ERRCODE = 'FWNOT';
    END IF;
    RETURN stored;
END
$$;
