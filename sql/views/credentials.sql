-- The credentials that are stored, without what they are: of one's own, and for administrators of all.
CREATE OR REPLACE VIEW fetchwork.credentials WITH (security_barrier) AS
SELECT
    c.owner,
    c.name,
    c.permissions,
    c.resource,
    c.renewable,
    c.key_id AS keyid,
    c.stored_at,
    c.renewed_at,
    c.expires_at
FROM fetchwork.credential AS c
WHERE (SELECT fetchwork.is_admin(current_user))
    OR c.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
