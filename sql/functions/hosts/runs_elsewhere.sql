-- Whether jobs of this run's autocluster run well on another host: longer there than a quick failure takes,
-- or ended well within the last hour. Black holes and hosts that back off from the owner do not count, so
-- that an owner is not kept off all hosts at once. Jobs submitted before this one do not count either: an
-- autocluster contains the attributes for matching, and does not identify the program.
-- Of the ended jobs only the owner's newest 200 are read, so that the cost does not grow with the history. A
-- host that fails jobs faster than the others complete any may fill those 200; then the running jobs decide.
CREATE OR REPLACE FUNCTION fetchwork.runs_elsewhere(live fetchwork.run)
RETURNS boolean
LANGUAGE sql
STABLE
BEGIN ATOMIC
    WITH its AS (
        SELECT a.owner
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = (live).autocluster_id
    ),
    doubtful AS (
        SELECT h.host_id
        FROM fetchwork.host AS h
        WHERE h.host_id = (live).host_id OR h.black_hole_since IS NOT NULL
        UNION ALL
        SELECT f.host_id
        FROM its
        JOIN fetchwork.failing_owner AS f ON f.owner = its.owner
        WHERE f.rest_until IS NOT NULL
    )
    SELECT EXISTS (
        SELECT FROM fetchwork.run AS r
        WHERE r.cluster_id >= (live).cluster_id
            AND r.autocluster_id = (live).autocluster_id
            AND r.host_id <> ALL (ARRAY(SELECT d.host_id FROM doubtful AS d))
            AND r.started_at < clock_timestamp() - fetchwork.setting_time('quick_failure')
    )
    OR EXISTS (
        SELECT FROM (
            SELECT
                j.run_id, j.cluster_id, j.autocluster_id,
                j.exit_code = 0
                    OR j.completed_at - j.last_start_at >= fetchwork.setting_time('quick_failure') AS good
            FROM fetchwork.job_history AS j
            WHERE j.owner = (SELECT its.owner FROM its)
                AND j.job_status = 4
                AND j.completed_at > now() - interval '1 hour'
            ORDER BY j.completed_at DESC
            LIMIT 200
        ) AS ended
        WHERE ended.good
            AND ended.cluster_id >= (live).cluster_id
            AND ended.autocluster_id = (live).autocluster_id
            AND EXISTS (
                SELECT FROM fetchwork.run_history AS h
                WHERE h.run_id = ended.run_id
                    AND h.ended_at > now() - interval '2 hours'
                    AND h.host_id <> ALL (ARRAY(SELECT d.host_id FROM doubtful AS d))
            )
    );
END;
