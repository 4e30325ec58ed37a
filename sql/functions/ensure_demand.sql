-- Says that jobs of this autocluster and priority wait, and wakes the agents.
--
-- The race it closes: a claimer that finds nothing waiting deletes the demand row (functions/claim.sql) while a submitter that has put
-- a job there has not committed yet. The submitter holds the row with FOR KEY SHARE until it commits, so the claimer's DELETE has to
-- wait or step back; submitters don't hinder each other. Call it after the rows of "waiting" are inserted.
CREATE OR REPLACE FUNCTION fetchwork.ensure_demand(autocluster integer, prio integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    LOOP
        PERFORM FROM fetchwork.demand AS d WHERE d.autocluster_id = autocluster AND d.job_prio = prio FOR KEY SHARE;
        EXIT WHEN FOUND;
        INSERT INTO fetchwork.demand (autocluster_id, job_prio) VALUES (autocluster, prio) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
    -- equal notifications of one transaction are sent once
    PERFORM pg_notify('fetchwork_work', '');
END
$$;
