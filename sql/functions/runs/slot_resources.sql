-- The resources of the slot of this name (provisioned).
CREATE OR REPLACE FUNCTION fetchwork.slot_resources(host_id integer, slot text)
RETURNS jsonb
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT coalesce(
        (
            SELECT fetchwork.provisioned(s)
            FROM fetchwork.slot AS s
            WHERE s.host_id = slot_resources.host_id AND s.name = slot_resources.slot
        ),
        '{}'
    );
END;
