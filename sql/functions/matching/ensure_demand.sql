-- Announces that at least so many jobs of this autocluster and priority wait, and notifies the agents. Call
-- it after the rows of "waiting" are inserted.
-- It closes a race: a claimer that finds nothing waiting deletes the demand row
-- (functions/matching/end_demand.sql) while a submitter that has put a job there has not committed yet. The
-- submitter holds a row with FOR KEY SHARE until it commits, and a claimer deletes only rows that it can lock
-- at once. A row that a claimer is about to delete gets a twin instead of a wait, so a transaction with many
-- jobs never waits here, in any order; SKIP LOCKED skips rows that are being deleted, and never another
-- submitter's KEY SHARE.
CREATE OR REPLACE FUNCTION fetchwork.ensure_demand(autocluster integer, prio integer, jobs bigint DEFAULT 1)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM fetchwork.demand AS d
    WHERE d.autocluster_id = autocluster AND d.job_prio = prio
    LIMIT 1
    FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO fetchwork.demand (autocluster_id, job_prio)
        VALUES (autocluster, prio);
    END IF;
    PERFORM fetchwork.tell_demand('+', autocluster, prio, jobs);
END
$$;
