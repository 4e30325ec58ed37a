-- This database's identity for the hosts: the text changes with a restore, a recovery, a standby's take-over,
-- a copy. It names the PostgreSQL cluster and its timeline, the database, and a table of ours, because a
-- restore in place makes the database or the table anew. If pg_control_system() may not be executed, as on a
-- managed server, the cluster's own identifier is left out. Two ways keep the text: a restore of rows into
-- existing tables (pg_restore --data-only), and a copy of the whole machine. After these an administrator
-- calls after_restore.
CREATE OR REPLACE FUNCTION fetchwork.server_identity()
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    system_identifier bigint;
BEGIN
    IF has_function_privilege('pg_control_system()', 'EXECUTE') THEN
        SELECT s.system_identifier
        INTO system_identifier
        FROM pg_control_system() AS s;
    END IF;
    RETURN concat_ws(
        '/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), fetchwork.running_identity()
    );
END
$$;
