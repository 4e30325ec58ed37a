-- Stores a chunk of a content that begin_content began and that the caller may write (writable_content); n
-- counts from 0, each chunk but the last has 1 MiB. The bytes must match sha256, in hex, which only a run
-- may leave out. A chunk that is already there stays as it is. For a content in a bucket, notes without bytes
-- that the part is there. False if the run is over.
-- Errors: FWINV (length, hash), those of writable_content.
CREATE OR REPLACE FUNCTION fetchwork.put_chunk(
    content_id bigint,
    n integer,
    data bytea,
    sha256 text DEFAULT NULL,
    run_id bigint DEFAULT NULL,
    token uuid DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content := fetchwork.writable_content(
        put_chunk.content_id, put_chunk.run_id, put_chunk.token
    );
    expected bigint := least(
        fetchwork.chunk_bytes(), stored.size - put_chunk.n::bigint * fetchwork.chunk_bytes()
    );
BEGIN
    IF stored.content_id IS NULL THEN
        RETURN false;
    END IF;
    -- the server does not see the bytes in a bucket: the reader compares the content's hash
    IF stored.bucket_id IS NOT NULL AND (
        put_chunk.n < 0
        OR put_chunk.n * fetchwork.part_bytes() >= stored.size
        OR octet_length(put_chunk.data) <> 0
    ) THEN
        RAISE EXCEPTION 'part % of content % comes with % bytes; allowed: none, its bytes are in a bucket',
            put_chunk.n, stored.content_id, octet_length(put_chunk.data) USING ERRCODE = 'FWINV';
    END IF;
    IF stored.bucket_id IS NULL
        AND (put_chunk.n < 0 OR expected <= 0 OR octet_length(put_chunk.data) <> expected)
    THEN
        RAISE EXCEPTION 'chunk % of a content of % bytes has %; allowed: %',
            put_chunk.n, stored.size, octet_length(put_chunk.data), greatest(expected, 0)
            USING ERRCODE = 'FWINV';
    END IF;
    IF (stored.run_id IS NULL OR put_chunk.sha256 IS NOT NULL)
        AND fetchwork.checked_sha256(put_chunk.sha256) <> sha256(put_chunk.data)
    THEN
        RAISE EXCEPTION 'chunk % is not what was announced: did the file change while it was sent?',
            put_chunk.n USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.content_chunk (content_id, n, data)
    VALUES (stored.content_id, put_chunk.n, put_chunk.data)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;
