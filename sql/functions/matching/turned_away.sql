-- The owners whose jobs a host gets one by one or not at all, because jobs of theirs failed on it
-- (note_start). failing: these owners, the one whose last failure is oldest first. closed: those of them
-- whose jobs may not start now. newcomers: whether the jobs of all other owners may. A black hole gets one
-- job at a time of a failing owner and one of another. A job that takes longer than black_hole_rest to begin
-- does not block the others.
CREATE OR REPLACE FUNCTION fetchwork.turned_away(host_id integer)
RETURNS TABLE (black_hole boolean, failing text [], closed text [], newcomers boolean)
LANGUAGE sql
STABLE
BEGIN ATOMIC
    WITH known AS (
        SELECT
            h.black_hole_since IS NOT NULL AS black_hole, h.next_probe_at, h.newcomer_probe_at,
            greatest(h.black_hole_since, clock_timestamp() - fetchwork.probe_rest(0)) AS probing_since
        FROM fetchwork.host AS h
        WHERE h.host_id = turned_away.host_id
    ),
    probing AS (
        SELECT
            bool_or(f.owner IS NOT NULL) AS of_failing,
            bool_or(f.owner IS NULL) AS of_newcomers
        FROM known AS k
        JOIN fetchwork.run AS r ON r.host_id = turned_away.host_id AND r.claimed_at >= k.probing_since
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
        LEFT JOIN fetchwork.failing_owner AS f ON f.host_id = r.host_id AND f.owner = a.owner
        WHERE k.black_hole
    ),
    owners AS (
        SELECT
            f.owner, f.last_bad_at,
            CASE
                WHEN k.black_hole THEN k.next_probe_at > now() OR coalesce(p.of_failing, false)
                ELSE f.rest_until > now()
                    OR EXISTS (
                        SELECT FROM fetchwork.run AS r
                        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
                        WHERE r.host_id = f.host_id AND r.claimed_at >= f.rest_until AND a.owner = f.owner
                    )
            END AS closed
        FROM known AS k
        CROSS JOIN probing AS p
        JOIN fetchwork.failing_owner AS f ON f.host_id = turned_away.host_id
        WHERE k.black_hole OR f.rest_until IS NOT NULL
    )
    SELECT
        k.black_hole,
        coalesce((SELECT array_agg(o.owner ORDER BY o.last_bad_at) FROM owners AS o), '{}'),
        coalesce((SELECT array_agg(o.owner) FROM owners AS o WHERE o.closed), '{}'),
        NOT k.black_hole OR (k.newcomer_probe_at <= now() AND NOT coalesce(p.of_newcomers, false))
    FROM known AS k
    CROSS JOIN probing AS p;
END;
