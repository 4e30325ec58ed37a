-- The slots that have refused autoclusters, and until when they are not offered them again.
CREATE OR REPLACE VIEW fetchwork.rests WITH (security_barrier) AS
SELECT
    h.name AS machine,
    t.slot AS name,
    t.autocluster_id AS autoclusterid,
    t.refusals,
    t.rest_until AS rest_until_at
FROM fetchwork.slot_rest AS t
JOIN fetchwork.host AS h ON h.host_id = t.host_id
JOIN fetchwork.autocluster AS a ON a.autocluster_id = t.autocluster_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
