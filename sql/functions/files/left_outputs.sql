-- The outputs of a run of a job, for the process that delivers them: the job's Owner, its access point, the
-- attributes of its ad about files, and the files in the form of run_files. No row for a forgotten job. Locks
-- nothing.
CREATE OR REPLACE FUNCTION fetchwork.left_outputs(cluster integer, proc integer, run_id bigint)
RETURNS TABLE (owner text, access_point text, ad jsonb, files jsonb)
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT
        e.owner,
        (c.ad || coalesce(e.ad, '{}')) ->> 'FetchWorkAccessPoint',
        fetchwork.transfer_ad(c.ad || coalesce(e.ad, '{}')) || jsonb_build_object(
            'ClusterId', left_outputs.cluster, 'ProcId', left_outputs.proc
        ),
        (
            SELECT jsonb_agg(fetchwork.described_file(f) ORDER BY f.name)
            FROM fetchwork.job_file AS f
            WHERE f.cluster_id = left_outputs.cluster
                AND f.proc_id = left_outputs.proc
                AND f.direction = 'output'
                AND f.run_id = left_outputs.run_id
        )
    FROM (
        SELECT j.owner, j.ad
        FROM fetchwork.known_job AS j
        WHERE j.cluster_id = left_outputs.cluster AND j.proc_id = left_outputs.proc
        LIMIT 1
    ) AS e
    CROSS JOIN fetchwork.cluster AS c
    WHERE c.cluster_id = left_outputs.cluster;
END;
