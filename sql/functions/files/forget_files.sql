-- Deletes outputs that were not fetched for output_days, except those that a job's end still waits for
-- (bring_wait), and contents of submissions and runs that broke off: begun longer than unused_content ago and
-- named by no job. At most 1000 of each in a call; maintain_tables calls it. Checkpoints at URLs that were
-- not deleted there are forgotten with the history (history_days).
CREATE OR REPLACE FUNCTION fetchwork.forget_files()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    old bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM fetchwork.job_file AS f
        WHERE f.direction = 'output'
            AND f.run_id IN (
                SELECT DISTINCT o.run_id
                FROM fetchwork.job_file AS o
                JOIN fetchwork.run_history AS h ON h.run_id = o.run_id
                WHERE o.direction = 'output'
                    AND h.ended_at < now() - fetchwork.setting_time('output_days')
                    AND NOT EXISTS (SELECT FROM fetchwork.bringing AS b WHERE b.run_id = o.run_id)
                LIMIT 1000
            )
        RETURNING f.content_id
    )
    SELECT array_agg(DISTINCT g.content_id)
    INTO old
    FROM gone AS g;
    PERFORM fetchwork.delete_contents(old);
    PERFORM fetchwork.delete_contents(ARRAY(
        SELECT c.content_id
        FROM fetchwork.content AS c
        WHERE c.begun_at < now() - fetchwork.setting_time('unused_content')
            AND NOT EXISTS (SELECT FROM fetchwork.job_file AS f WHERE f.content_id = c.content_id)
            -- an upload may take long
            AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.run_id = c.run_id)
        LIMIT 1000
    ));
    DELETE FROM fetchwork.stored_checkpoint AS s
    WHERE s.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM fetchwork.stored_checkpoint AS o
        WHERE o.stored_at < now() - fetchwork.setting_time('history_days')
            AND NOT fetchwork.is_stored_for_use(o)
        LIMIT 1000
    ));
END
$$;
