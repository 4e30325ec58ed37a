-- UPDATE_JOB_INFO of many runs that only live and report usage, as heartbeat() does: writes the usage,
-- extends the deadlines. Returns their positions in the arrays. heartbeat() must do the others: runs that are
-- over, to end, suspended or resumed, with another token, or whose rows another transaction holds.
-- Events: IMAGE_SIZE (006) when it grew by a tenth. Locks: the runs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.renew_runs(run_ids bigint [], tokens uuid [], reports jsonb [])
RETURNS integer []
LANGUAGE plpgsql
AS $$
DECLARE
    renewed_now integer[];
BEGIN
    WITH alive AS (
        SELECT
            a.n, a.report, a.report ? 'JobState' AS has_state, r.run_id, r.cluster_id, r.proc_id, r.state,
            r.job_status, fetchwork.number_of(r.usage -> 'ImageSize') AS old_size,
            fetchwork.number_of(a.report -> 'ImageSize') AS new_size
        FROM unnest(run_ids, tokens, reports) WITH ORDINALITY AS a (run_id, token, report, n)
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        WHERE fetchwork.proves(a.token, r.token, r.host_id)
            AND r.end_requested IS NULL
            AND r.suspension IS DISTINCT FROM 'continue'
            AND fetchwork.is_plain_report(a.report)
            AND (
                NOT a.report ? 'JobState'
                OR (a.report ->> 'JobState' = 'Suspended') = (r.job_status = 7)
            )
        FOR UPDATE OF r SKIP LOCKED
    ),
    renewed AS (
        UPDATE fetchwork.run AS r
        SET contact_at = clock_timestamp(),
            -- as in heartbeat
            deadline = CASE WHEN r.state = 'running' THEN clock_timestamp() + r.lease ELSE r.deadline END,
            job_pid = coalesce(fetchwork.integer_of(a.report -> 'JobPid'), r.job_pid),
            usage = CASE WHEN a.has_state THEN a.report ELSE r.usage END
        FROM alive AS a
        WHERE r.run_id = a.run_id
        RETURNING a.*
    ),
    grown AS (
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        SELECT
            6, a.cluster_id, a.proc_id, a.run_id,
            jsonb_strip_nulls(jsonb_build_object(
                'Size', a.report -> 'ImageSize',
                'ResidentSetSize', a.report -> 'ResidentSetSize',
                'MemoryUsage', a.report -> 'MemoryUsage'
            ))
        FROM renewed AS a
        WHERE a.state = 'running'
            AND a.job_status IN (2, 7)
            AND a.has_state
            AND a.new_size > coalesce(a.old_size, 0) * 1.1
    )
    SELECT array_agg(a.n)
    INTO renewed_now
    FROM renewed AS a;
    RETURN coalesce(renewed_now, '{}');
END
$$;
