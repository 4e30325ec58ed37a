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
    least(h.next_probe_at, h.newcomer_probe_at) AS next_probe_at,
    -- the reader's Owners, all for readers that see all: their jobs are offered to the host now and then
    ARRAY(
        SELECT f.owner
        FROM fetchwork.failing_owner AS f
        WHERE f.host_id = h.host_id
            AND (h.black_hole_since IS NOT NULL OR f.rest_until IS NOT NULL)
            AND (
                (SELECT fetchwork.sees_all(current_user))
                OR f.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
            )
    ) AS failing_owners,
    -- its identity was found on two machines
    CASE WHEN i.revoked_at IS NULL THEN i.copied_at END AS copied_at
FROM fetchwork.host AS h
LEFT JOIN fetchwork.host_identity AS i ON i.host_id = h.host_id
WHERE NOT h.access_point;
