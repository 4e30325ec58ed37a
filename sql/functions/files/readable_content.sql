-- The content that a caller may read: with run_id one that the job of that live run names as an input, or
-- that an earlier run of the job saved, by the run's token; without, an output of an Owner that the caller
-- may name. NULLs for any other, which does not exist for the caller, and if the run is over.
-- Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.readable_content(content_id bigint, run_id bigint, token uuid)
RETURNS fetchwork.content
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    role name := fetchwork.invoker();
    live fetchwork.run;
    stored fetchwork.content;
BEGIN
    IF readable_content.run_id IS NOT NULL THEN
        live := fetchwork.file_run(readable_content.run_id, readable_content.token);
    END IF;
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = readable_content.content_id
        AND CASE
            WHEN readable_content.run_id IS NULL THEN
                c.run_id IS NOT NULL
                AND (fetchwork.is_admin(role) OR c.owner = ANY (fetchwork.own_owners(role)))
            ELSE EXISTS (
                SELECT FROM fetchwork.job_file AS f
                WHERE f.content_id = c.content_id
                    AND f.cluster_id = live.cluster_id
                    AND f.proc_id IN (-1, live.proc_id)
                    AND f.direction IN ('input', 'spool')
            )
        END;
    RETURN stored;
END
$$;
