-- Sends a notification to the agents, on the channel fetchwork_work, unless the queue of notifications fills
-- up: a submit, a claim or an end must not fail for one. All functions of this schema notify through this
-- one. The payloads are described where they are made (functions/matching/tell_demand.sql,
-- functions/runs/tell_end.sql, functions/reading/watch_output.sql); '' means: look at everything again.
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
