-- For an administrator: from this commit on hosts must have joined by an invitation, and those that share a
-- role are refused; required false: they are served again. Returns the roles that they may share, which can
-- still read all jobs until they are dropped.
-- Errors: FWDEN, also while hosts beat that have not joined, unless forced; their runs then end as those of a
-- host that fell silent.
CREATE OR REPLACE FUNCTION fetchwork.require_join(required boolean DEFAULT true, forced boolean DEFAULT false)
RETURNS name []
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    others text[];
BEGIN
    PERFORM fetchwork.require_admin();
    others := ARRAY(
        SELECT h.name
        FROM fetchwork.host AS h
        WHERE h.agent_version IS NOT NULL
            AND NOT h.access_point
            AND h.lease_until > clock_timestamp()
            AND NOT EXISTS (SELECT FROM fetchwork.host_identity AS i WHERE i.host_id = h.host_id)
        ORDER BY h.name
    );
    IF required AND NOT forced AND cardinality(others) > 0 THEN
        RAISE EXCEPTION '% hosts have not joined: %; allowed: to invite them first, or to end them by force',
            cardinality(others), array_to_string(others[:10], ', ') USING ERRCODE = 'FWDEN';
    END IF;
    PERFORM fetchwork.set_setting('require_join', required::integer);
    RETURN ARRAY(
        SELECT r.rolname
        FROM pg_auth_members AS m
        JOIN pg_roles AS r ON r.oid = m.member
        WHERE m.roleid = 'fetchwork_agent'::regrole AND r.rolcanlogin AND NOT r.rolsuper
        ORDER BY r.rolname
    );
END
$$;
