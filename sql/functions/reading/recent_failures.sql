-- The latest runs of the last hour, at most so many, that failed: whose job did not end by itself, or with
-- another exit code than 0, or by a signal. Only those of Owners that the caller may see.
CREATE OR REPLACE FUNCTION fetchwork.recent_failures(most integer DEFAULT 5000)
RETURNS TABLE (cluster_id integer, proc_id integer, host text, what text)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        r.cluster_id,
        r.proc_id,
        h.name,
        CASE
            WHEN r.outcome <> 'completed'
                THEN concat_ws(': ', replace(r.outcome::text, '_', ' '), r.reason)
            WHEN r.report ? 'ExitSignal' THEN format('ended by signal %s', r.report ->> 'ExitSignal')
            ELSE format('ended with exit code %s', r.report ->> 'ExitCode')
        END
    FROM fetchwork.run_history AS r
    LEFT JOIN fetchwork.host AS h ON h.host_id = r.host_id
    WHERE (r.outcome <> 'completed' OR r.report ->> 'ExitCode' <> '0' OR r.report ? 'ExitSignal')
        AND r.ended_at BETWEEN now() - interval '1 hour' AND 'infinity'
        AND (
            fetchwork.sees_all(fetchwork.invoker())
            OR r.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        )
    ORDER BY r.ended_at DESC
    LIMIT recent_failures.most;
END;
