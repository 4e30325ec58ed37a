-- Execute hosts that ever asked for work.
CREATE OR REPLACE VIEW fetchwork.hosts AS
SELECT
    h.host_id AS hostid,
    h.name AS machine,
    h.agent_version,
    h.seen_at,
    h.lease_until AS lease_until_at,
    h.agent_version IS NOT NULL AND h.lease_until >= now() AS alive,
    (SELECT count(*) FROM fetchwork.run AS r WHERE r.host_id = h.host_id) AS runs,
    h.bad_starts,
    h.bad_reason,
    h.black_hole_since AS black_hole_since_at,
    h.next_probe_at
FROM fetchwork.host AS h
WHERE NOT h.access_point;
