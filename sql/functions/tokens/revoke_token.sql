-- Ends a token of a person: act_by_token refuses it from this commit on. False if it had ended before. For
-- those that may create_token for its Owner. Errors: FWDEN, FWNOT (no such token, or not the caller's).
CREATE OR REPLACE FUNCTION fetchwork.revoke_token(number integer)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its fetchwork.person_token;
BEGIN
    SELECT t.*
    INTO its
    FROM fetchwork.person_token AS t
    WHERE t.number = revoke_token.number
        AND (
            fetchwork.is_admin(fetchwork.invoker())
            OR t.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        );
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no token %', revoke_token.number USING ERRCODE = 'FWNOT';
    END IF;
    PERFORM fetchwork.require_token_maker(its.owner);
    UPDATE fetchwork.person_token AS t
    SET revoked_at = clock_timestamp()
    WHERE t.number = its.number AND t.revoked_at IS NULL AND t.valid_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.note_action('revoke_token', its.owner, NULL, its.number::text, NULL);
    RETURN true;
END
$$;
