-- An agent renews its host's lease, and the deadlines of the runs whose starters it sees alive; alive and
-- tokens are parallel. Returns the runs that it should end: because their end was requested (action 'end'),
-- or because they are not its own any more ('gone'): ended, another's of the same id, or one that has not
-- started in this database, which was restored from before that. An agent that another one has replaced is
-- refused (FWTWO), and one whose host was forgotten meanwhile (FWNOT), which has to say hello.
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
    own := ARRAY(
        SELECT r.run_id
        FROM unnest(beat.alive, beat.tokens) AS a (run_id, token)
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        WHERE r.host_id = beat.host_id AND r.state = 'running' AND fetchwork.proves(a.token, r.token)
    );
    UPDATE fetchwork.host AS h
    SET seen_at = clock_timestamp(),
        lease_until = clock_timestamp() + fetchwork.host_lease(h),
        -- claims may wait for this after a move to another server (note_move)
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
            RAISE EXCEPTION USING
                ERRCODE = 'FWNOT',
                MESSAGE = format('host %s was forgotten: say hello', beat.host_id);
        END IF;
    END IF;
    -- a third of a lease is soon enough: most beats write nothing here
    UPDATE fetchwork.run AS r
    SET deadline = clock_timestamp() + r.lease
    WHERE r.run_id IN (
        -- SKIP LOCKED: a row that another transaction holds is being renewed or ended there, and to wait for
        -- it while holding the host's row could be a deadlock
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
    SELECT r.run_id, 'end'
    FROM fetchwork.run AS r
    WHERE r.run_id = ANY (own) AND r.end_requested IS NOT NULL;
END
$$;
