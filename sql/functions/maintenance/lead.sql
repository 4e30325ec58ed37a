-- Calls maintain_queue for one agent at a time, the leader: the last caller, unless lead_s seconds have
-- passed since its call. leads: whether the caller is the leader; the other agents find out by reading one
-- row, and call again later. So a thousand agents make one call every second or two, not one each. rests: no
-- process has begun to evaluate the policies of waiting jobs within the last minute, and the caller may
-- (policy_jobs), which the leader may not if its host was invited without "trusted".
-- Locks: the row of the task, without waiting.
CREATE OR REPLACE FUNCTION fetchwork.lead(
    agent_id uuid,
    lead_s double precision,
    OUT leads boolean,
    OUT reaped integer,
    OUT woken integer,
    OUT folded integer,
    OUT rests boolean
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last timestamptz := clock_timestamp() - make_interval(secs => lead_s);
BEGIN
    leads := false;
    reaped := 0;
    woken := 0;
    folded := 0;
    rests := fetchwork.may_see_all()
        AND NOT EXISTS (
            SELECT FROM fetchwork.leader_task AS t
            WHERE t.name = 'policy' AND t.taken_at > clock_timestamp() - interval '1 minute'
        );
    IF EXISTS (
        SELECT FROM fetchwork.leader_task AS t
        WHERE t.name = 'lead' AND t.taken_at > last AND t.agent_id <> lead.agent_id
    ) THEN
        RETURN;
    END IF;
    PERFORM FROM fetchwork.leader_task AS t
    WHERE t.name = 'lead'
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE fetchwork.leader_task AS t
    SET taken_at = clock_timestamp(), agent_id = lead.agent_id
    WHERE t.name = 'lead' AND (t.taken_at <= last OR t.agent_id = lead.agent_id);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    leads := true;
    SELECT m.reaped, m.woken, m.folded
    INTO lead.reaped, lead.woken, lead.folded
    FROM fetchwork.maintain_queue() AS m;
END
$$;
