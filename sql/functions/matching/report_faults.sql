-- Notes that a host could not evaluate these autoclusters on one of its slots: the evaluation took too much
-- CPU time, or ended the matchmaker. Each backs off from that host for ten minutes (candidates). The host's
-- own START may be at fault, so the jobs are held only when a second host reports the same (hold_faulty),
-- before a third one has to find out. FETCH_WORK's handler calls it.
-- Locks: the rows of autocluster_fault that it writes; calls of different hosts do not wait for each other.
CREATE OR REPLACE FUNCTION fetchwork.report_faults(host_id integer, autoclusters integer [], reasons text [])
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(report_faults.host_id);
    INSERT INTO fetchwork.autocluster_fault AS f (autocluster_id, host_id, reason, rest_until)
    SELECT fault.autocluster_id, report_faults.host_id, left(fault.reason, 1000), now() + interval '10 min'
    FROM unnest(report_faults.autoclusters, report_faults.reasons) AS fault (autocluster_id, reason)
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = fault.autocluster_id
    ON CONFLICT (autocluster_id, host_id)
        DO UPDATE SET reason = excluded.reason, rest_until = excluded.rest_until;
END;
