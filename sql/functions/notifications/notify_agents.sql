-- Notifies the agents, on the channel fetchwork_work, unless the queue of notifications is filling up: a
-- submit, a claim or an end must not fail because of a notification. All functions of this schema notify
-- through this one; their files describe the payloads (functions/matching/tell_demand.sql,
-- functions/runs/tell_host.sql, functions/reading/watch_output.sql). '' means: read everything again.
CREATE OR REPLACE FUNCTION fetchwork.notify_agents(payload text DEFAULT '')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF fetchwork.sends_notifications() THEN
        PERFORM pg_notify('fetchwork_work', payload);
    END IF;
END
$$;
