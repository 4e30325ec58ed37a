-- Counts bad starts of a host in a row (could not start, failed at once, lost), over how many autoclusters, to tell a black hole from a bad job.
-- A good run clears it. One row for each host, touched only when something is or was bad.
CREATE OR REPLACE FUNCTION fetchwork.note_start(host integer, autocluster integer, good boolean, reason text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rest double precision := fetchwork.setting_value('black_hole_rest');
    longest double precision := fetchwork.setting_value('max_black_hole_rest');
    limit_runs integer := fetchwork.setting_value('black_hole_runs');
BEGIN
    IF good THEN
        UPDATE fetchwork.host AS h
        SET bad_starts = 0, bad_autoclusters = '{}', bad_reason = NULL, black_hole_since = NULL, probes = 0, next_probe_at = NULL
        WHERE h.host_id = host AND (h.bad_starts > 0 OR h.black_hole_since IS NOT NULL);
        RETURN;
    END IF;
    UPDATE fetchwork.host AS h
    SET bad_starts = h.bad_starts + 1,
        bad_autoclusters = CASE WHEN autocluster = ANY (h.bad_autoclusters) OR cardinality(h.bad_autoclusters) >= 8 THEN h.bad_autoclusters ELSE h.bad_autoclusters || autocluster END,
        bad_reason = note_start.reason
    WHERE h.host_id = host;
    UPDATE fetchwork.host AS h
    SET black_hole_since = coalesce(h.black_hole_since, clock_timestamp()),
        probes = CASE WHEN h.black_hole_since IS NULL THEN 0 ELSE h.probes + 1 END,
        next_probe_at = clock_timestamp() + make_interval(secs => least(rest * power(2, CASE WHEN h.black_hole_since IS NULL THEN 0 ELSE least(h.probes + 1, 30) END), longest))
    WHERE h.host_id = host AND h.bad_starts >= limit_runs AND cardinality(h.bad_autoclusters) >= 2;
END
$$;
