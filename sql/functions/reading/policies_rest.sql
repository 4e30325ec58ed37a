-- Whether the policies of jobs that don't run (periodic_remove, ...) rest: there are such jobs, and no access
-- point or trusted host has begun to evaluate them within the last three minutes, three times the interval.
CREATE OR REPLACE FUNCTION fetchwork.policies_rest()
RETURNS boolean
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        NOT EXISTS (
            SELECT FROM fetchwork.leader_task AS t
            WHERE t.name = 'policy' AND t.taken_at > clock_timestamp() - interval '3 minutes'
        )
        AND EXISTS (
            SELECT FROM fetchwork.job AS j
            WHERE j.has_policy AND j.job_status IN (1, 4, 5, 6)
        );
END;
