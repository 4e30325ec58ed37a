-- Renews a host's lease, and the deadlines of the runs whose starters its agent sees alive (alive and tokens,
-- parallel). Returns what its agent should do: end a run whose end was requested ('end') or that is no longer
-- its own ('gone': ended, another's run of the same id, or not started in this database, which was restored
-- from an earlier state), keep its job stopped ('suspend'), or let it go on ('continue').
-- Errors: FWTWO (another agent has replaced it), FWNOT (its host was forgotten: it has to say hello). Locks:
-- the host; the runs, skipping locked ones.
CREATE OR REPLACE FUNCTION fetchwork.beat(
    host_id integer,
    alive bigint [],
    tokens uuid [],
    agent_id uuid
)
RETURNS TABLE (run_id bigint, action text)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own bigint[];
BEGIN
    PERFORM fetchwork.require_host(beat.host_id);
    own := ARRAY(
        SELECT r.run_id
        FROM unnest(beat.alive, beat.tokens) AS a (run_id, token)
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        WHERE r.host_id = beat.host_id
            AND r.state = 'running'
            AND fetchwork.proves(a.token, r.token, r.host_id)
    );
    UPDATE fetchwork.host AS h
    SET seen_at = clock_timestamp(),
        lease_until = clock_timestamp() + fetchwork.host_lease(h),
        -- after a move to another server claims may wait for this (note_move)
        settled_at = CASE
            WHEN cardinality(own) < cardinality(beat.alive) THEN h.settled_at
            ELSE clock_timestamp()
        END
    WHERE h.host_id = beat.host_id
        AND h.agent_id = beat.agent_id;
    IF NOT FOUND THEN
        PERFORM fetchwork.refuse_agent(h, beat.agent_id, NULL)
        FROM fetchwork.host AS h
        WHERE h.host_id = beat.host_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'host % was forgotten: say hello', beat.host_id USING ERRCODE = 'FWNOT';
        END IF;
    END IF;
    -- after a third of a lease is soon enough: most beats write no run
    UPDATE fetchwork.run AS r
    SET deadline = clock_timestamp() + r.lease
    WHERE r.run_id IN (
        -- SKIP LOCKED: another transaction is renewing or ending a locked row, and waiting for it while
        -- holding the host's row could deadlock
        SELECT l.run_id
        FROM fetchwork.run AS l
        WHERE l.run_id = ANY (own)
            AND l.deadline < clock_timestamp() + l.lease * 0.67
        FOR UPDATE SKIP LOCKED
    );
    RETURN QUERY
    SELECT a.run_id, 'gone'
    FROM unnest(beat.alive) AS a (run_id)
    WHERE a.run_id <> ALL (own)
    UNION ALL
    SELECT r.run_id, CASE WHEN r.end_requested IS NOT NULL THEN 'end' ELSE r.suspension END
    FROM fetchwork.run AS r
    WHERE r.run_id = ANY (own) AND (r.end_requested IS NOT NULL OR r.suspension IS NOT NULL);
END
$$;
