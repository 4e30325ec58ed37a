-- Takes back what ensure_demand announced, if nothing waits there, and tells the agents. Called by a claim
-- that looked from the start and found nothing. The race with a submitter is described in
-- functions/matching/ensure_demand.sql: a row
-- that a submitter holds is left (SKIP LOCKED); and after getting the others a new statement, so a new
-- snapshot, looks again before exactly those are deleted.
CREATE OR REPLACE FUNCTION fetchwork.end_demand(autocluster integer, prio integer)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
