-- A cluster id for submit_cluster, for ads that contain the id ($(ClusterId) in a file name). Only its caller
-- (asker) may use it, within the setting cluster_reservation. An unused id leaves a harmless gap;
-- max_reserved_clusters limits each caller's unused ids, so that they can't use all ids up.
-- Errors: FWDEN (too many).
CREATE OR REPLACE FUNCTION fetchwork.reserve_cluster()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    asking text := fetchwork.asker();
    maximum bigint := fetchwork.setting_value('max_reserved_clusters');
    reserved integer;
BEGIN
    DELETE FROM fetchwork.cluster_reservation AS r
    WHERE r.role = asking
        AND r.reserved_at < now() - fetchwork.setting_time('cluster_reservation');
    IF (
        SELECT count(*)
        FROM fetchwork.cluster_reservation AS r
        WHERE r.role = asking
    ) >= maximum THEN
        RAISE EXCEPTION 'role % has % cluster ids reserved and not used; allowed: % (setting '
            'max_reserved_clusters)',
            quote_nullable(asking), maximum, maximum USING ERRCODE = 'FWDEN';
    END IF;
    INSERT INTO fetchwork.cluster_reservation (cluster_id, role)
    VALUES (fetchwork.next_cluster(), asking)
    RETURNING cluster_id INTO reserved;
    RETURN reserved;
END
$$;
