-- A cluster id for submit_cluster, for ads that hold the id themselves ($(ClusterId) in a file name). Only
-- who reserved it (asker) may use it, and only for a while (setting cluster_reservation). An id that is not
-- used leaves a gap, which does no harm; so that nobody uses all ids up, each may have some reserved at a
-- time (setting max_reserved_clusters).
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
        AND r.reserved_at < now() - make_interval(
            secs => fetchwork.setting_value('cluster_reservation')::double precision
        );
    IF (
        SELECT count(*)
        FROM fetchwork.cluster_reservation AS r
        WHERE r.role = asking
    ) >= maximum THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L has %s cluster ids reserved and not used; '
                'allowed: %s (setting max_reserved_clusters)',
                asking, maximum, maximum
            );
    END IF;
    INSERT INTO fetchwork.cluster_reservation (cluster_id, role)
    VALUES (fetchwork.next_cluster(), asking)
    RETURNING cluster_id INTO reserved;
    RETURN reserved;
END
$$;
