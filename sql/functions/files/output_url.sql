-- The presigned URL with which JOB_EXIT of a live run may PUT one of its outputs for an hour, by the key of
-- the job's cluster. NULL if the run is over. The hook runs as the job's user, so the URL must be an output
-- URL of the job's ad, or below one: the key signs nothing else for its job.
-- Errors: FWTOK (another run's token), FWDEN (not a URL of an output), FWNOT (no key), FWINV (object_of_url).
CREATE OR REPLACE FUNCTION fetchwork.output_url(run_id bigint, token uuid, url text)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(output_url.run_id, output_url.token);
    of_job jsonb;
    signed text;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT fetchwork.transfer_ad(c.ad || j.ad)
    INTO of_job
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    IF fetchwork.is_output_url(of_job, output_url.url) IS NOT TRUE THEN
        RAISE EXCEPTION 'URL % is of no output of run %; allowed: below output_destination, a target of a '
            'remap',
            quote_nullable(left(output_url.url, 200)), live.run_id USING ERRCODE = 'FWDEN';
    END IF;
    signed := fetchwork.job_url('PUT', output_url.url, live.cluster_id, of_job);
    IF signed IS NULL THEN
        RAISE EXCEPTION 'run % has no key for URL %',
            live.run_id, quote_nullable(left(output_url.url, 200)) USING ERRCODE = 'FWNOT';
    END IF;
    RETURN signed;
END
$$;
