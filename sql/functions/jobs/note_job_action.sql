-- Notes an action on jobs (note_action): a row for each of their Owners. The arrays have a job each.
CREATE OR REPLACE FUNCTION fetchwork.note_job_action(
    action text,
    clusters integer [],
    procs integer [],
    owners text [],
    details text
)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    SELECT fetchwork.note_action(
        note_job_action.action, o.owner, o.jobs,
        array_to_string(o.first_jobs[1:5], ', ') || CASE WHEN o.jobs > 5 THEN ', ...' ELSE '' END,
        note_job_action.details
    )
    FROM (
        SELECT
            k.owner, count(*)::integer AS jobs,
            array_agg(fetchwork.job_id(k.cluster_id, k.proc_id)) FILTER (WHERE k.nth <= 1000) AS first_jobs
        FROM unnest(clusters, procs, owners) WITH ORDINALITY AS k (cluster_id, proc_id, owner, nth)
        GROUP BY k.owner
    ) AS o;
END;
