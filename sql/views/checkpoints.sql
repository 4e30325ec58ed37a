-- The files that runs of jobs in the queue have saved for the next run of their job: a checkpoint, or the
-- files of an eviction (when_to_transfer_output = ON_EXIT_OR_EVICT), which has no number.
CREATE OR REPLACE VIEW fetchwork.checkpoints WITH (security_barrier) AS
SELECT
    j.cluster_id AS clusterid,
    j.proc_id AS procid,
    fetchwork.job_id(j.cluster_id, j.proc_id) AS jobid,
    j.owner,
    s.run_id AS runid,
    (coalesce(r.transfer, h.transfer) ->> 'CheckpointNumber')::integer AS checkpointnumber,
    to_timestamp((coalesce(r.transfer, h.transfer) ->> 'LastCkptTime')::bigint) AS saved_at,
    s.files,
    s.bytes
FROM (
    SELECT
        f.cluster_id, f.proc_id, f.run_id,
        count(*) FILTER (WHERE f.name NOT LIKE '%/') AS files,
        sum(f.size)::bigint AS bytes
    FROM fetchwork.job_file AS f
    WHERE f.direction = 'spool'
    GROUP BY f.cluster_id, f.proc_id, f.run_id
) AS s
JOIN fetchwork.job AS j ON j.cluster_id = s.cluster_id AND j.proc_id = s.proc_id
LEFT JOIN fetchwork.run AS r ON r.run_id = s.run_id
LEFT JOIN fetchwork.run_history AS h ON h.run_id = s.run_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR j.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
