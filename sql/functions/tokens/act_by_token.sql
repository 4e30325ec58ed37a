-- Gives the rest of the transaction the rights of the Owner of a token (act_for), if its SHA-256 is that of
-- one that is neither over nor revoked; returns that Owner, and whether the token is read-only. Called at the
-- begin of each transaction for a person with a token, so that a revoked one is refused at once. writes: the
-- transaction changes something, which a read-only token may not.
-- Errors: FWDEN (also a role that is not a member of fetchwork_access_point).
CREATE OR REPLACE FUNCTION fetchwork.act_by_token(digest bytea, writes boolean)
RETURNS TABLE (owner text, read_only boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT t.owner, t.read_only
    INTO act_by_token.owner, act_by_token.read_only
    FROM fetchwork.person_token AS t
    WHERE t.digest = act_by_token.digest AND t.revoked_at IS NULL AND t.valid_until > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the token is not known here, is over or was revoked' USING ERRCODE = 'FWDEN';
    END IF;
    IF act_by_token.writes AND act_by_token.read_only THEN
        RAISE EXCEPTION 'the token is read-only' USING ERRCODE = 'FWDEN';
    END IF;
    PERFORM fetchwork.act_for(act_by_token.owner);
    RETURN NEXT;
END
$$;
