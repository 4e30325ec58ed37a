-- Raises FWDEN if a cluster has more jobs than may be submitted at once, in HTCondor's words.
CREATE OR REPLACE FUNCTION fetchwork.check_submission(jobs bigint)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    maximum bigint := fetchwork.setting_value('max_jobs_per_submission');
BEGIN
    IF jobs > maximum THEN
        RAISE EXCEPTION 'Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION: % jobs in one '
            'cluster; allowed: % (setting max_jobs_per_submission)',
            jobs, maximum USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
