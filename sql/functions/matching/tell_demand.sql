-- Notifies the agents of a change of the demand, so that each can decide without a call whether it is
-- concerned. The payload on the channel fetchwork_work is a JSON array:
-- - ["+", autocluster, JobPrio, jobs, queue, RequestCpus, RequestMemory, RequestDisk, RequestGPUs]: at least
--   so many jobs were queued; the numbers as in "autocluster", null for an expression
-- - ["~", autocluster, JobPrio]: a claim took the apparently last job
-- - ["-", autocluster, JobPrio]: the demand has ended (functions/matching/end_demand.sql)
-- and '' for other changes: read everything again (queues, limits, hosts that administrators changed).
-- Notifications come in the order of commits, so an agent that applies them to its copy has a true one. Still
-- they are hints: any role may send one, so an agent trusts none that could cost it more than a little time
-- (fetchwork/matching/demand.py). PostgreSQL sends equal ones of a transaction once, at the place of the
-- first: a "+" after a "-" or "~" of its transaction ends with a number of spaces of its own, so that it
-- comes after that. A transaction with more than 64 sends '' instead of the rest, so that a large submission
-- is no flood.
CREATE OR REPLACE FUNCTION fetchwork.tell_demand(
    what text, autocluster integer, prio integer, jobs bigint DEFAULT 0
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    told integer := coalesce(nullif(current_setting('fetchwork.told', true), ''), '0');
    again boolean := coalesce(current_setting('fetchwork.told_of_ends', true), '') = 'true';
    its fetchwork.autocluster;
BEGIN
    IF told >= 64 THEN
        PERFORM fetchwork.notify_agents();
        RETURN;
    END IF;
    PERFORM set_config('fetchwork.told', (told + 1)::text, true);
    IF what <> '+' THEN
        PERFORM set_config('fetchwork.told_of_ends', 'true', true);
        PERFORM fetchwork.notify_agents(json_build_array(what, autocluster, prio)::text);
        RETURN;
    END IF;
    SELECT a.*
    INTO its
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = tell_demand.autocluster;
    PERFORM fetchwork.notify_agents(json_build_array(
        what, autocluster, prio, jobs, its.queue, its.request_cpus, its.request_memory_mib,
        its.request_disk_kib, its.request_gpus
    )::text || repeat(' ', CASE WHEN again THEN told ELSE 0 END));
END
$$;
