-- Stores a chunk of a content that begin_content began, after comparing it with its hash in hex; n counts
-- from 0, each chunk but the last has 1 MiB. Repeating a call is harmless.
-- Errors: FWNOT (no such content of an Owner that the caller may name), FWINV (length, hash).
CREATE OR REPLACE FUNCTION fetchwork.put_content_chunk(
    content_id bigint,
    n integer,
    data bytea,
    sha256 text
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content := fetchwork.own_content(put_content_chunk.content_id);
BEGIN
    PERFORM fetchwork.add_chunk(
        stored, put_content_chunk.n, put_content_chunk.data,
        fetchwork.checked_sha256(put_content_chunk.sha256)
    );
END
$$;
