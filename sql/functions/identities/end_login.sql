-- Ends a role of make_login: it can't log in any more, its sessions end where the owner of the schema may end
-- them, and it is dropped if it owns nothing. Returns how many sessions go on; each function refuses them.
CREATE OR REPLACE FUNCTION fetchwork.end_login(role name)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    going_on integer;
    is_member boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = end_login.role) THEN
        RETURN 0;
    END IF;
    EXECUTE format('ALTER ROLE %I NOLOGIN PASSWORD NULL', role);
    SELECT count(*)
    INTO going_on
    FROM pg_stat_activity AS s
    WHERE s.usename = end_login.role AND s.pid <> pg_backend_pid();
    IF going_on > 0 THEN
        BEGIN
            -- to end sessions of a role one must be a member of it
            is_member := pg_has_role(current_user, role, 'USAGE');
            IF NOT is_member THEN
                EXECUTE format('GRANT %I TO %I', role, current_user);
            END IF;
            SELECT count(*) FILTER (WHERE NOT ended.done)
            INTO going_on
            FROM (
                SELECT pg_terminate_backend(s.pid) AS done
                FROM pg_stat_activity AS s
                WHERE s.usename = end_login.role AND s.pid <> pg_backend_pid()
            ) AS ended;
            -- its bounds would be the owner's as long as the role is there
            IF NOT is_member THEN
                EXECUTE format('REVOKE %I FROM %I', role, current_user);
            END IF;
        EXCEPTION
            WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    BEGIN
        EXECUTE format('DROP ROLE %I', role);
    EXCEPTION
        WHEN dependent_objects_still_exist OR object_in_use OR insufficient_privilege THEN NULL;
    END;
    RETURN going_on;
END
$$;
