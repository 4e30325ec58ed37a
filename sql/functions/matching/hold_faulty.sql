-- Holds the waiting jobs of autoclusters that two hosts could not evaluate, at most 1000 in a call of
-- maintain_queue, and returns how many. A fault counts for a day; a released job is held again while the
-- faults count.
-- Locks: the jobs; skips locked ones, so that agents do not wait for each other or for a submitter who has
-- locked a job.
CREATE OR REPLACE FUNCTION fetchwork.hold_faulty()
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    faulty record;
    held integer := 0;
BEGIN
    FOR faulty IN
        SELECT queued.cluster_id, queued.proc_id, fault.reason
        FROM (
            SELECT f.autocluster_id, min(f.reason) AS reason
            FROM fetchwork.autocluster_fault AS f
            WHERE f.rest_until > now() - interval '1 day'
            GROUP BY f.autocluster_id
            -- of hosts that joined by one invitation, one is heard
            HAVING count(DISTINCT coalesce(
                (SELECT -i.invitation FROM fetchwork.host_identity AS i WHERE i.host_id = f.host_id),
                f.host_id
            )) >= 2
        ) AS fault
        CROSS JOIN LATERAL (
            SELECT w.cluster_id, w.proc_id
            FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = fault.autocluster_id
            LIMIT 1000
        ) AS queued
        LIMIT 1000
    LOOP
        PERFORM FROM fetchwork.job AS j
        WHERE j.cluster_id = faulty.cluster_id AND j.proc_id = faulty.proc_id AND j.job_status = 1
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        CONTINUE WHEN fetchwork.dequeue_jobs(ARRAY[faulty.cluster_id], ARRAY[faulty.proc_id]) = 0;
        PERFORM fetchwork.hold_jobs(
            ARRAY[faulty.cluster_id],
            ARRAY[faulty.proc_id],
            'two hosts could not evaluate the job: ' || faulty.reason,
            5,
            0
        );
        held := held + 1;
    END LOOP;
    RETURN held;
END
$$;
