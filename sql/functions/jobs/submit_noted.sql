-- A whole submission in one call, for services: note_submission, then submit_ads with all of its jobs.
-- Returns the jobs' QDate, in seconds since 1970. Errors, locks: as those two.
CREATE OR REPLACE FUNCTION fetchwork.submit_noted(
    owner text,
    key text,
    common jsonb,
    procs jsonb,
    cluster integer
)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.note_submission(submit_noted.owner, submit_noted.key, submit_noted.cluster);
    PERFORM fetchwork.submit_ads(submit_noted.common, submit_noted.procs, submit_noted.cluster);
    RETURN extract(epoch FROM now())::bigint;
END
$$;
