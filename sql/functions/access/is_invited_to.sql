-- serves_queue, for the session of a joined host. False for an identity that has a copy.
CREATE OR REPLACE FUNCTION fetchwork.is_invited_to(queue text, free boolean)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM fetchwork.host_identity AS i
        JOIN fetchwork.invitation AS v ON v.number = i.invitation
        WHERE i.host_id = fetchwork.own_host(copied => false)
            AND (v.queues IS NULL OR is_invited_to.queue = ANY (v.queues))
            AND (v.max_slots IS NULL OR NOT is_invited_to.free)
    );
END
$$;
