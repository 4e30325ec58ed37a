-- The bounds of the next claims of the session's host. slots: the number of the wanted slots that may claim a
-- job. cores: the most Cpus that these jobs may request together; NULL: any number. Both are what the
-- invitation's max_slots leaves beside the live runs; no slots for an identity that has a copy. Each run
-- counts as one slot, and as the Cpus that its job requests: one, if by an expression. queues: those that the
-- host was invited for; NULL: all. Locks: the host's identity if there is such a limit, so that two claims do
-- not count at once.
CREATE OR REPLACE FUNCTION fetchwork.free_slots(
    host_id integer,
    wanted integer,
    OUT slots integer,
    OUT cores double precision,
    OUT queues text []
)
LANGUAGE plpgsql
AS $$
DECLARE
    most integer;
    is_copied boolean;
BEGIN
    slots := wanted;
    IF NOT fetchwork.is_joined_host() THEN
        RETURN;
    END IF;
    SELECT v.max_slots, v.queues, i.copied_at IS NOT NULL
    INTO most, free_slots.queues, is_copied
    FROM fetchwork.host_identity AS i
    JOIN fetchwork.invitation AS v ON v.number = i.invitation
    WHERE i.host_id = free_slots.host_id;
    IF is_copied THEN
        slots := 0;
    END IF;
    IF most IS NULL OR is_copied THEN
        RETURN;
    END IF;
    PERFORM FROM fetchwork.host_identity AS i
    WHERE i.host_id = free_slots.host_id
    FOR NO KEY UPDATE;
    -- by a new statement, which sees the claims of the transaction that had the lock
    SELECT
        greatest(0, least(wanted, most - count(*))),
        most - coalesce(sum((
            -- each by its key, however many autoclusters there are
            SELECT coalesce(a.request_cpus, 1)
            FROM fetchwork.autocluster AS a
            WHERE a.autocluster_id = r.autocluster_id
        )), 0)
    INTO free_slots.slots, free_slots.cores
    FROM fetchwork.run AS r
    WHERE r.host_id = free_slots.host_id;
END
$$;
