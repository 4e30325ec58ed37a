-- A chunk of a content that the caller may read (readable_content); n counts from 0. NULL if the content or
-- the chunk is not there, as after its delivery, or if the run is over. Locks nothing.
-- Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.read_chunk(
    content_id bigint,
    n integer,
    run_id bigint DEFAULT NULL,
    token uuid DEFAULT NULL
)
RETURNS bytea
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content := fetchwork.readable_content(
        read_chunk.content_id, read_chunk.run_id, read_chunk.token
    );
BEGIN
    RETURN (
        SELECT k.data
        FROM fetchwork.content_chunk AS k
        WHERE k.content_id = stored.content_id AND k.n = read_chunk.n
    );
END
$$;
