-- The runs of a host whose output is watched, at most 50, with the position behind the stored part of each
-- stream (NULL: nothing yet). An agent asks when it is notified (functions/reading/watch_output.sql), then
-- each second while there is such a run.
CREATE OR REPLACE FUNCTION fetchwork.watched_output(host_id integer)
RETURNS TABLE (run_id bigint, stdout_at bigint, stderr_at bigint)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(watched_output.host_id);
    SELECT
        w.run_id,
        (
            SELECT max(c.starts_at + octet_length(c.content))
            FROM fetchwork.output_chunk AS c
            WHERE c.run_id = w.run_id AND c.stream = 1
        ),
        (
            SELECT max(c.starts_at + octet_length(c.content))
            FROM fetchwork.output_chunk AS c
            WHERE c.run_id = w.run_id AND c.stream = 2
        )
    FROM fetchwork.output_watch AS w
    WHERE w.host_id = watched_output.host_id AND NOT w.ended AND w.watched_until > clock_timestamp()
    ORDER BY w.run_id
    LIMIT 50;
END;
