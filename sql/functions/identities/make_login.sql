-- Makes a login role for one invitation or host, with a SCRAM verifier in place of a password; returns its
-- number and its name, which has the database's oid, because roles belong to all databases of a server. The
-- owner of the schema must be able to make roles, and to grant this group (PostgreSQL 16: as the role that
-- made it).
CREATE OR REPLACE FUNCTION fetchwork.make_login(
    member_of name,
    verifier text,
    valid_until timestamptz,
    OUT number integer,
    OUT role name
)
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM fetchwork.require_verifier(verifier);
    -- a database that was restored from an earlier state may find a later role
    LOOP
        number := nextval('fetchwork.login_number');
        role := format(
            '%s_%s_%s',
            member_of, (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()), number
        );
        EXIT WHEN NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = make_login.role);
    END LOOP;
    EXECUTE format(
        'CREATE ROLE %I LOGIN CONNECTION LIMIT 32 PASSWORD %L VALID UNTIL %L IN ROLE %I%s',
        role, verifier, valid_until, member_of,
        CASE member_of WHEN 'fetchwork_joined_point' THEN ', fetchwork_access_point' END
    );
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the owner of schema fetchwork, %, may not make roles; allowed: with CREATEROLE, and '
            'on PostgreSQL 16 and later with the right to grant %',
            quote_nullable(current_user), member_of USING ERRCODE = 'FWDEN';
END
$$;
