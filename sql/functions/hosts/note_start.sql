-- Distinguishes black holes from bad jobs: counts the bad starts of a host in a row (a job could not start,
-- or failed at once). A good run clears the count.
--
-- A job that fails at once does not show whether the host or the job is at fault. A host is taken for a black
-- hole when many fail in a row, of at least two autoclusters, and either
-- - they are of two Owners (one person may have several accounting groups): it is unlikely that both have
--   broken jobs here and now;
-- - or the autocluster that has just failed runs well on another host. Where all jobs are of one Owner,
--   nothing else distinguishes an error of theirs from the host's. An Owner whose jobs fail wherever they run
--   makes no black hole, however many autoclusters they are.
--
-- A host's row is touched only when a start is or was bad. Of the autoclusters the last eight are kept.
CREATE OR REPLACE FUNCTION fetchwork.note_start(live fetchwork.run, good boolean, reason text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    failing fetchwork.host;
    owners integer;
    failed_probes integer;
    first_rest double precision := fetchwork.setting_value('black_hole_rest');
    longest_rest double precision := fetchwork.setting_value('max_black_hole_rest');
BEGIN
    -- an access point runs what was submitted there, and is no black hole
    IF EXISTS (
        SELECT FROM fetchwork.host AS h
        WHERE h.host_id = live.host_id AND h.access_point
    ) THEN
        RETURN;
    END IF;
    IF good THEN
        UPDATE fetchwork.host AS h
        SET bad_starts = 0,
            bad_autoclusters = '{}',
            bad_reason = NULL,
            black_hole_since = NULL,
            probes = 0,
            next_probe_at = NULL
        WHERE h.host_id = live.host_id AND (h.bad_starts > 0 OR h.black_hole_since IS NOT NULL);
        RETURN;
    END IF;
    UPDATE fetchwork.host AS h
    SET bad_starts = h.bad_starts + 1,
        bad_reason = note_start.reason,
        bad_autoclusters = CASE
            WHEN live.autocluster_id = ANY (h.bad_autoclusters) THEN h.bad_autoclusters
            WHEN cardinality(h.bad_autoclusters) >= 8 THEN h.bad_autoclusters[2:] || live.autocluster_id
            ELSE h.bad_autoclusters || live.autocluster_id
        END
    WHERE h.host_id = live.host_id
    RETURNING h.* INTO failing;
    IF failing.black_hole_since IS NULL THEN
        IF failing.bad_starts < fetchwork.setting_value('black_hole_runs')
            OR cardinality(failing.bad_autoclusters) < 2
        THEN
            RETURN;
        END IF;
        SELECT count(DISTINCT a.owner)
        INTO owners
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = ANY (failing.bad_autoclusters);
        IF owners < 2 AND NOT fetchwork.runs_elsewhere(live) THEN
            RETURN;
        END IF;
        failed_probes := 0;
    ELSE
        failed_probes := failing.probes + 1;
    END IF;
    UPDATE fetchwork.host AS h
    SET black_hole_since = coalesce(h.black_hole_since, clock_timestamp()),
        probes = failed_probes,
        next_probe_at = clock_timestamp() + make_interval(
            secs => least(first_rest * power(2, least(failed_probes, 30)), longest_rest)
        )
    WHERE h.host_id = live.host_id;
END
$$;
