-- Makes a token of a person, which signs in at the page and the API with the rights of this Owner alone. The
-- caller made the token, and only its SHA-256 comes here. read_only: it changes nothing. For
-- administrators, and for roles that may name the Owner; not for those that act for an account (act_for).
-- Errors: FWDEN (also root), FWINV (no digest, a time that is too long, or too many tokens).
CREATE OR REPLACE FUNCTION fetchwork.create_token(
    owner text,
    digest bytea,
    valid_s double precision,
    read_only boolean DEFAULT false
)
RETURNS TABLE (number integer, valid_until timestamptz)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    most integer := 100;
BEGIN
    PERFORM fetchwork.require_token_maker(create_token.owner);
    IF create_token.owner !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$'
        OR lower(create_token.owner) IN ('root', 'toor')
    THEN
        RAISE EXCEPTION 'Owner % can''t have a token; allowed: an account name, never root',
            quote_nullable(create_token.owner) USING ERRCODE = 'FWDEN';
    END IF;
    IF (length(create_token.digest) = 32 AND create_token.valid_s BETWEEN 1 AND 31622400) IS NOT TRUE THEN
        RAISE EXCEPTION 'a token has a digest of % bytes and is valid for % s; allowed: 32, 1 to 31622400',
            length(create_token.digest), create_token.valid_s USING ERRCODE = 'FWINV';
    END IF;
    IF most <= (
        SELECT count(*)
        FROM fetchwork.person_token AS t
        WHERE t.owner = create_token.owner
            AND t.revoked_at IS NULL
            AND t.valid_until > clock_timestamp()
    ) THEN
        RAISE EXCEPTION 'Owner % has % tokens, which is the most; allowed: to revoke one first',
            quote_literal(create_token.owner), most USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.person_token AS t (owner, digest, read_only, created_by, valid_until)
    VALUES (
        create_token.owner, create_token.digest, create_token.read_only, fetchwork.invoker(),
        clock_timestamp() + make_interval(secs => create_token.valid_s)
    )
    RETURNING t.number, t.valid_until INTO create_token.number, create_token.valid_until;
    PERFORM fetchwork.note_action(
        'create_token', create_token.owner, NULL, create_token.number::text,
        CASE WHEN create_token.read_only THEN 'read only' END
    );
    RETURN NEXT;
END
$$;
