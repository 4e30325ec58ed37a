-- Takes back what ensure_demand said, if really nothing waits there. Called by a claim that looked from the start and found nothing.
-- The race with a submitter is told in functions/matching/ensure_demand.sql: a row that a submitter holds is left (SKIP LOCKED); and after getting the others a
-- new statement, so a new snapshot, looks again before exactly those are deleted.
CREATE OR REPLACE FUNCTION fetchwork.end_demand(autocluster integer, prio integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    got tid[];
BEGIN
    SELECT array_agg(l.ctid) INTO got
    FROM (
        SELECT d.ctid FROM fetchwork.demand AS d WHERE d.autocluster_id = autocluster AND d.job_prio = prio FOR UPDATE SKIP LOCKED
    ) AS l;
    IF got IS NOT NULL AND NOT EXISTS (SELECT FROM fetchwork.waiting AS w WHERE w.autocluster_id = autocluster AND w.job_prio = prio) THEN
        DELETE FROM fetchwork.demand AS d WHERE d.ctid = ANY (got);
    END IF;
END
$$;
