-- The Owners that this role may name, whose jobs it sees and changes: those granted to it, or the one account
-- that it acts for. SECURITY DEFINER, because people can't read owner_grant. A session learns nothing about a
-- role that it is not a member of.
CREATE OR REPLACE FUNCTION fetchwork.own_owners(role name)
RETURNS text[]
LANGUAGE sql
STABLE
PARALLEL SAFE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT CASE
        WHEN NOT pg_has_role(session_user, own_owners.role, 'MEMBER') THEN '{}'
        WHEN fetchwork.acting_for(own_owners.role) IS NOT NULL THEN
            ARRAY[fetchwork.acting_for(own_owners.role)]
        WHEN fetchwork.is_joined_point() THEN (
            SELECT coalesce(array_agg(DISTINCT o.owner), '{}')
            FROM (
                SELECT a.owner
                FROM fetchwork.autocluster AS a
                UNION
                SELECT p.name
                FROM fetchwork.past_owner AS p
            ) AS o
            WHERE o.owner LIKE (SELECT fetchwork.invited_owners())
        )
        ELSE (
            SELECT coalesce(array_agg(DISTINCT g.owner), '{}')
            FROM fetchwork.owner_grant AS g
            JOIN pg_catalog.pg_roles AS r ON r.rolname = g.role
            WHERE pg_has_role(own_owners.role, r.oid, 'USAGE')
        )
    END;
END;
