-- What happened to jobs. Of one job in the order of eventid; of all in that of (batch, eventid), which every
-- reader sees alike, and in which no event has a place before its batch is given (functions/reading/
-- event_window.sql).
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
    );
