-- A URL to PUT part n of a content that begin_output began, where its bytes are to be in a bucket; what is
-- there is noted by put_output_chunk without data. NULL if the run is over.
-- Errors: FWDEN (another's token), FWNOT (a content that is not the run's, or is complete), FWINV (part_url).
CREATE OR REPLACE FUNCTION fetchwork.output_part_url(run_id bigint, token uuid, content_id bigint, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(output_part_url.run_id, output_part_url.token);
    stored fetchwork.content;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = output_part_url.content_id AND c.run_id = live.run_id AND NOT c.complete;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWNOT',
            MESSAGE = format(
                'content %s is none that run %s leaves', output_part_url.content_id, live.run_id
            );
    END IF;
    RETURN fetchwork.part_url('PUT', stored, output_part_url.n);
END
$$;
