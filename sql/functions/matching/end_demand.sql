-- Ends the demand of this autocluster and priority, if nothing waits there, and notifies the agents. A claim
-- without a hint that found nothing calls it. functions/matching/ensure_demand.sql describes the race with a
-- submitter: a row that a submitter holds is skipped, and after the others are locked, a new statement with a
-- new snapshot checks again before it deletes them.
-- Locks: the rows of demand; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.end_demand(autocluster integer, prio integer)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    locked tid[];
BEGIN
    SELECT array_agg(l.ctid)
    INTO locked
    FROM (
        SELECT d.ctid
        FROM fetchwork.demand AS d
        WHERE d.autocluster_id = autocluster AND d.job_prio = prio
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF locked IS NOT NULL AND NOT EXISTS (
        SELECT FROM fetchwork.waiting AS w
        WHERE w.autocluster_id = autocluster AND w.job_prio = prio
    ) THEN
        DELETE FROM fetchwork.demand AS d
        WHERE d.ctid = ANY (locked);
        PERFORM fetchwork.tell_demand('-', autocluster, prio);
    END IF;
END
$$;
