-- True for one caller in each period, which then does the task for all (policy pass, preemption, maintenance
-- of tables). Tasks that show the jobs of all are for those that may_see_all; an access point takes no
-- others. The task 'seal' (credentials_to_seal) is for agents that may_see_all, once a host has a key of its
-- own.
CREATE OR REPLACE FUNCTION fetchwork.take_leader_task(name text, every_s double precision)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF take_leader_task.name IN ('policy', 'objects') THEN
        IF NOT fetchwork.may_see_all() THEN
            RETURN false;
        END IF;
    ELSIF NOT pg_has_role(session_user, 'fetchwork_agent', 'USAGE')
        AND NOT pg_has_role(session_user, 'fetchwork_host', 'USAGE')
        AND NOT fetchwork.is_admin(fetchwork.invoker())
    THEN
        RETURN false;
    END IF;
    IF take_leader_task.name = 'seal'
        AND NOT (
            fetchwork.may_see_all()
            AND EXISTS (SELECT FROM fetchwork.host_identity AS i WHERE i.credential_key IS NOT NULL)
        )
    THEN
        RETURN false;
    END IF;
    INSERT INTO fetchwork.leader_task AS d (name, taken_at)
    VALUES (take_leader_task.name, clock_timestamp())
    ON CONFLICT ON CONSTRAINT leader_task_pkey DO UPDATE SET taken_at = clock_timestamp()
    WHERE d.taken_at <= clock_timestamp() - make_interval(secs => every_s);
    RETURN FOUND;
END
$$;
