-- Raises FWDEN if a submission makes its owner exceed max_jobs_per_owner, in HTCondor's words. Called after
-- the jobs are counted (tally_change). Reads two sums and locks nothing: uncommitted jobs of other
-- transactions are not counted, so no submission waits for another. Several submissions at the same moment
-- may pass the limit, each by as much as may be submitted at once; all later ones are refused.
CREATE OR REPLACE FUNCTION fetchwork.check_owner(owner text)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    maximum bigint := fetchwork.setting_value('max_jobs_per_owner');
    jobs bigint;
BEGIN
    SELECT coalesce(sum(n.jobs), 0)
    INTO jobs
    FROM (
        SELECT o.jobs
        FROM fetchwork.owner_tally AS o
        WHERE o.owner = check_owner.owner
        UNION ALL
        SELECT c.jobs
        FROM fetchwork.tally_change AS c
        WHERE c.owner = check_owner.owner
    ) AS n;
    IF jobs > maximum THEN
        RAISE EXCEPTION 'Number of submitted jobs would exceed MAX_JOBS_PER_OWNER: Owner % would have % jobs '
            'in the queue; allowed: % (setting max_jobs_per_owner)',
            quote_nullable(check_owner.owner), jobs, maximum USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
