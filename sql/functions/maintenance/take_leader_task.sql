-- True for one caller in each period, which then does the task for all (policy pass, preemption, maintenance
-- of tables). The caller does not report back: a task may be missed once, or done twice.
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
