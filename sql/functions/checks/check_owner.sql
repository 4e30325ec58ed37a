-- Refuses (FWDEN) a submission after which its owner has more jobs in the queue than he may, in HTCondor's
-- words. Called when the jobs are counted already (tally_change).
--
-- It reads two sums and locks nothing: jobs of other transactions that are not committed are not counted, so
-- that nobody waits for anybody. Several submissions at the same moment may pass the limit, each by as much
-- as may be submitted at once; all later ones are refused.
CREATE OR REPLACE FUNCTION fetchwork.check_owner(owner text)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'Number of submitted jobs would exceed MAX_JOBS_PER_OWNER: '
                'Owner %L would have %s jobs in the queue; allowed: %s (setting max_jobs_per_owner)',
                check_owner.owner, jobs, maximum
            );
    END IF;
END
$$;
