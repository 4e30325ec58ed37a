-- The number of the wanted slots of the session's host that may claim a job: all, up to its invitation's
-- max_slots live runs. Locks: the host's identity if there is such a limit, so that two claims do not count
-- at once.
CREATE OR REPLACE FUNCTION fetchwork.free_slots(host_id integer, wanted integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    most integer;
BEGIN
    IF NOT fetchwork.is_joined_host() THEN
        RETURN wanted;
    END IF;
    SELECT v.max_slots
    INTO most
    FROM fetchwork.host_identity AS i
    JOIN fetchwork.invitation AS v ON v.number = i.invitation
    WHERE i.host_id = free_slots.host_id;
    IF most IS NULL THEN
        RETURN wanted;
    END IF;
    PERFORM FROM fetchwork.host_identity AS i
    WHERE i.host_id = free_slots.host_id
    FOR NO KEY UPDATE;
    RETURN greatest(
        0, least(wanted, most - (
            SELECT count(*)
            FROM fetchwork.run AS r
            WHERE r.host_id = free_slots.host_id
        ))
    );
END
$$;
