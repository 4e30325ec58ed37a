-- The events of jobs. Those of one job are in the order of eventid; those of all jobs in the order of (batch,
-- eventid), which is the same for every reader, and in which an event has a place only when its batch is
-- given (functions/reading/event_window.sql).
CREATE OR REPLACE VIEW fetchwork.events WITH (security_barrier) AS
SELECT
    e.batch,
    e.event_id AS eventid,
    e.event_type AS eventtypenumber,
    e.cluster_id AS clusterid,
    e.proc_id AS procid,
    e.run_id AS runid,
    e.at AS event_at,
    e.info
FROM fetchwork.event AS e
WHERE (SELECT fetchwork.sees_all(current_user))
    OR EXISTS (
        SELECT FROM fetchwork.job AS j
        WHERE j.cluster_id = e.cluster_id
            AND j.proc_id = e.proc_id
            AND j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
    )
    OR EXISTS (
        SELECT FROM fetchwork.job_history AS j
        WHERE j.cluster_id = e.cluster_id
            AND j.proc_id = e.proc_id
            AND j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
    )
    -- of a late cluster, and of no job
    OR (
        e.proc_id = -1
        AND EXISTS (
            SELECT FROM fetchwork.cluster AS c
            WHERE c.cluster_id = e.cluster_id
                AND c.ad ->> 'Owner' = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
        )
    );
