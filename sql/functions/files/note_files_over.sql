-- Notes the ended jobs that had files or a key, for drop_files.
CREATE OR REPLACE FUNCTION fetchwork.note_files_over(clusters integer [], procs integer [])
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO fetchwork.files_over (cluster_id, proc_id)
    SELECT k.cluster_id, k.proc_id
    FROM unnest(note_files_over.clusters, note_files_over.procs) AS k (cluster_id, proc_id)
    WHERE EXISTS (
        SELECT FROM fetchwork.job_file AS f
        WHERE f.cluster_id = k.cluster_id AND f.proc_id IN (-1, k.proc_id)
    )
        OR EXISTS (SELECT FROM fetchwork.job_key AS b WHERE b.cluster_id = k.cluster_id);
END;
