-- Makes a queue, or changes one: changes has any of paused, draining (booleans), max_running, preempt_ratio,
-- preempt_prio (numbers, null for none). Errors: FWDEN, FWINV (an unknown key).
CREATE OR REPLACE FUNCTION fetchwork.set_queue(name text, changes jsonb DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
BEGIN
    PERFORM fetchwork.require_admin();
    SELECT k.key
    INTO unknown
    FROM jsonb_object_keys(changes) AS k (key)
    WHERE k.key NOT IN ('paused', 'draining', 'max_running', 'preempt_ratio', 'preempt_prio')
    LIMIT 1;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'queue % has no setting %; allowed: paused, draining, max_running, preempt_ratio, '
            'preempt_prio',
            quote_nullable(set_queue.name), quote_nullable(unknown) USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.queue (name)
    VALUES (set_queue.name)
    ON CONFLICT DO NOTHING;
    UPDATE fetchwork.queue AS q
    SET paused = CASE WHEN changes ? 'paused' THEN (changes ->> 'paused')::boolean ELSE q.paused END,
        draining = CASE WHEN changes ? 'draining' THEN (changes ->> 'draining')::boolean ELSE q.draining END,
        max_running = CASE
            WHEN changes ? 'max_running' THEN (changes ->> 'max_running')::integer
            ELSE q.max_running
        END,
        preempt_ratio = CASE
            WHEN changes ? 'preempt_ratio' THEN (changes ->> 'preempt_ratio')::double precision
            ELSE q.preempt_ratio
        END,
        preempt_prio = CASE
            WHEN changes ? 'preempt_prio' THEN (changes ->> 'preempt_prio')::integer
            ELSE q.preempt_prio
        END
    WHERE q.name = set_queue.name;
    PERFORM fetchwork.note_action('set_queue', NULL, NULL, set_queue.name, changes::text);
    -- a queue may go on: agents with waiting fetches read the demand again
    PERFORM fetchwork.notify_agents();
END
$$;
