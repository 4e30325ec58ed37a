-- The stored credentials, without their contents: the reader's own, for administrators all.
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
