-- Among all agents, one caller in each period gets true and does the leader task (policy pass, preemption, maintenance). It is not asked whether it did:
-- leader tasks are harmless to miss once and to repeat.
CREATE OR REPLACE FUNCTION fetchwork.take_leader_task(name text, every_s double precision)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO fetchwork.leader_task AS d (name, taken_at)
    VALUES (take_leader_task.name, clock_timestamp())
    ON CONFLICT ON CONSTRAINT leader_task_pkey DO UPDATE SET taken_at = clock_timestamp()
    WHERE d.taken_at <= clock_timestamp() - make_interval(secs => every_s);
    RETURN FOUND;
END
$$;
