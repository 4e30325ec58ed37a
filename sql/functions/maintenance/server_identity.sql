-- This PostgreSQL cluster and its timeline: another after a restore into another cluster, a recovery, a
-- standby's taking over. NULL where the right to ask is missing.
CREATE OR REPLACE FUNCTION fetchwork.server_identity()
RETURNS text
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_function_privilege('pg_control_system()', 'EXECUTE') THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT s.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
        FROM pg_control_system() AS s
    );
END
$$;
