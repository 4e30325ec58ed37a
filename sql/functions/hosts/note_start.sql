-- Tells black holes from bad jobs: counts the bad starts of a host in a row (a job could not start, or failed at once). A good run clears the count.
--
-- Every job that fails at once says "the host" or "I myself", and can't tell which. A host is taken for a black hole when many fail in a row, of at least
-- two kinds, and either
-- - they are of two people (Owners, since one person may have several accounting groups): it is unlikely that both have broken jobs here and now;
-- - or the kind that has just failed runs well on another host. Where one person is alone with his jobs nothing else tells his error from the host's.
-- Someone whose jobs fail wherever they run makes no black hole, however many kinds of them he has.
--
-- One row for each host, touched only when something is or was bad. Of the kinds the last eight are kept.
CREATE OR REPLACE FUNCTION fetchwork.note_start(its fetchwork.run, good boolean, reason text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    the_host fetchwork.host;
    failed_probes integer;
BEGIN
    IF good THEN
        UPDATE fetchwork.host AS h
        SET bad_starts = 0, bad_autoclusters = '{}', bad_reason = NULL, black_hole_since = NULL, probes = 0, next_probe_at = NULL
        WHERE h.host_id = its.host_id AND (h.bad_starts > 0 OR h.black_hole_since IS NOT NULL);
        RETURN;
    END IF;
    UPDATE fetchwork.host AS h
    SET bad_starts = h.bad_starts + 1, bad_reason = note_start.reason,
        bad_autoclusters = CASE
            WHEN its.autocluster_id = ANY (h.bad_autoclusters) THEN h.bad_autoclusters
            WHEN cardinality(h.bad_autoclusters) >= 8 THEN h.bad_autoclusters[2:] || its.autocluster_id
            ELSE h.bad_autoclusters || its.autocluster_id
        END
    WHERE h.host_id = its.host_id
    RETURNING h.* INTO the_host;
    IF the_host.black_hole_since IS NULL THEN
        IF the_host.bad_starts < fetchwork.setting_value('black_hole_runs') OR cardinality(the_host.bad_autoclusters) < 2 THEN
            RETURN;
        END IF;
        IF (SELECT count(DISTINCT a.owner) FROM fetchwork.autocluster AS a WHERE a.autocluster_id = ANY (the_host.bad_autoclusters)) < 2
                AND NOT fetchwork.runs_elsewhere(its) THEN
            RETURN;
        END IF;
        failed_probes := 0;
    ELSE
        failed_probes := the_host.probes + 1;
    END IF;
    UPDATE fetchwork.host AS h
    SET black_hole_since = coalesce(h.black_hole_since, clock_timestamp()), probes = failed_probes,
        next_probe_at = clock_timestamp() + make_interval(secs => least(
            fetchwork.setting_value('black_hole_rest')::double precision * power(2, least(failed_probes, 30)),
            fetchwork.setting_value('max_black_hole_rest')::double precision))
    WHERE h.host_id = its.host_id;
END
$$;
