-- A host could not evaluate these autoclusters on one of its slots: that took too much CPU time, or ended the
-- matchmaker. Each rests on that host for ten minutes: it is none of the host's candidates.
--
-- What one host says may be the fault of that host's START, so the jobs are held only when a second host has
-- said the same (hold_faulty); then no third host needs to find out.
--
-- Called by FETCH_WORK's handler. Locks: the rows of autocluster_fault that it writes; no call waits for
-- those of another host.
CREATE OR REPLACE FUNCTION fetchwork.report_faults(host_id integer, autoclusters integer [], reasons text [])
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO fetchwork.autocluster_fault AS f (autocluster_id, host_id, reason, rest_until)
    SELECT fault.autocluster_id, report_faults.host_id, left(fault.reason, 1000), now() + interval '10 min'
    FROM unnest(report_faults.autoclusters, report_faults.reasons) AS fault (autocluster_id, reason)
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = fault.autocluster_id
    ON CONFLICT (autocluster_id, host_id)
        DO UPDATE SET reason = excluded.reason, rest_until = excluded.rest_until;
END;
