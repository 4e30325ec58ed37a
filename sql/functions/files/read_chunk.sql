-- A chunk of a content that has_input allows a live run; n counts from 0. NULL if the run is over, or if its
-- job has no such content or the content no such chunk: other jobs' contents do not exist for it. Locks
-- nothing. Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.read_chunk(run_id bigint, token uuid, content_id bigint, n integer)
RETURNS bytea
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(read_chunk.run_id, read_chunk.token);
BEGIN
    RETURN (
        SELECT k.data
        FROM fetchwork.content_chunk AS k
        WHERE k.content_id = read_chunk.content_id
            AND k.n = read_chunk.n
            AND fetchwork.has_input(live, read_chunk.content_id)
    );
END
$$;
