-- A URL to PUT part n of a content that begin_output began in a bucket; put_output_chunk without data then
-- notes the part. NULL if the run is over.
-- Errors: FWTOK (another run's token), FWNOT (not a content of the run, or complete), FWINV (part_url).
CREATE OR REPLACE FUNCTION fetchwork.output_part_url(run_id bigint, token uuid, content_id bigint, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
        RAISE EXCEPTION 'content % is not one of run %',
            output_part_url.content_id, live.run_id USING ERRCODE = 'FWNOT';
    END IF;
    RETURN fetchwork.part_url('PUT', stored, output_part_url.n);
END
$$;
