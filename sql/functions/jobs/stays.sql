-- Whether a job stays in the queue after its end, until an agent finds that its leave_in_queue is no longer
-- true. checked_ad has dropped a false one.
CREATE OR REPLACE FUNCTION fetchwork.stays(cluster integer, proc integer)
RETURNS boolean
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT jsonb_strip_nulls(c.ad || j.ad) ? 'LeaveJobInQueue'
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = stays.cluster AND j.proc_id = stays.proc AND j.has_policy;
END;
