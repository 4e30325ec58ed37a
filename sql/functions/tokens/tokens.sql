-- The tokens of people, the latest first: all for administrators, else those of the caller's Owners. state:
-- 'valid', 'over' or 'revoked'.
CREATE OR REPLACE FUNCTION fetchwork.tokens()
RETURNS TABLE (
    number integer,
    owner text,
    read_only boolean,
    state text,
    created_by text,
    created_at timestamptz,
    valid_until timestamptz
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        t.number, t.owner, t.read_only,
        CASE
            WHEN t.revoked_at IS NOT NULL THEN 'revoked'
            WHEN t.valid_until < clock_timestamp() THEN 'over'
            ELSE 'valid'
        END,
        t.created_by, t.created_at, t.valid_until
    FROM fetchwork.person_token AS t
    WHERE fetchwork.is_admin(fetchwork.invoker())
        OR t.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
    ORDER BY t.number DESC;
END;
