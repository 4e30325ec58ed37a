-- Whether the next run of its job starts from a stored checkpoint.
CREATE OR REPLACE FUNCTION fetchwork.is_stored_for_use(stored fetchwork.stored_checkpoint)
RETURNS boolean
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM fetchwork.job_file AS f
        WHERE f.cluster_id = (is_stored_for_use.stored).cluster_id
            AND f.proc_id = (is_stored_for_use.stored).proc_id
            AND f.direction = 'spool'
            AND starts_with(f.url, (is_stored_for_use.stored).base)
    );
END;
