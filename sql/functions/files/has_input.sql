-- Whether a live run's job names this content as an input, or an earlier run of the job saved it.
CREATE OR REPLACE FUNCTION fetchwork.has_input(live fetchwork.run, content_id bigint)
RETURNS boolean
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM fetchwork.job_file AS f
        WHERE f.content_id = has_input.content_id
            AND f.cluster_id = (has_input.live).cluster_id
            AND f.proc_id IN (-1, (has_input.live).proc_id)
            AND f.direction IN ('input', 'spool')
    );
END;
