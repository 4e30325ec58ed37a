-- A URL to GET part n of a content in a bucket that has_input allows a live run; NULL as from read_chunk,
-- which serves contents in the database. Locks nothing.
-- Errors: FWTOK (another run's token), FWINV (part_url).
CREATE OR REPLACE FUNCTION fetchwork.input_part_url(run_id bigint, token uuid, content_id bigint, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(input_part_url.run_id, input_part_url.token);
BEGIN
    RETURN (
        SELECT fetchwork.part_url('GET', c, input_part_url.n)
        FROM fetchwork.content AS c
        WHERE c.content_id = input_part_url.content_id
            AND fetchwork.has_input(live, input_part_url.content_id)
    );
END
$$;
