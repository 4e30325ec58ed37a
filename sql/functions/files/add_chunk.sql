-- Stores a chunk of a content that the caller has the right to; once, so a chunk that is sent again is
-- compared with nothing and changes nothing. FWINV if its length or, where it is given, its hash is another.
-- Of a content in a bucket it is noted that a part is there.
CREATE OR REPLACE FUNCTION fetchwork.add_chunk(stored fetchwork.content, n integer, data bytea, hash bytea)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    expected bigint := least(
        fetchwork.chunk_bytes(), stored.size - add_chunk.n::bigint * fetchwork.chunk_bytes()
    );
BEGIN
    IF stored.bucket_id IS NOT NULL THEN
        -- nobody here has seen it: who reads it compares the content's hash
        IF add_chunk.n < 0
            OR add_chunk.n * fetchwork.part_bytes() >= stored.size
            OR octet_length(data) <> 0
        THEN
            RAISE EXCEPTION USING
                ERRCODE = 'FWINV',
                MESSAGE = format(
                    'part %s of content %s comes with %s bytes; allowed: none, its bytes are in a bucket',
                    add_chunk.n, stored.content_id, octet_length(data)
                );
        END IF;
        INSERT INTO fetchwork.content_chunk (content_id, n, data)
        VALUES (stored.content_id, add_chunk.n, '')
        ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    IF add_chunk.n < 0 OR expected <= 0 OR octet_length(data) <> expected THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'chunk %s of a content of %s bytes has %s; allowed: %s',
                add_chunk.n, stored.size, octet_length(data), greatest(expected, 0)
            );
    END IF;
    IF hash <> sha256(data) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'chunk %s is not what was announced: did the file change while it was sent?', add_chunk.n
            );
    END IF;
    INSERT INTO fetchwork.content_chunk (content_id, n, data)
    VALUES (stored.content_id, add_chunk.n, add_chunk.data)
    ON CONFLICT DO NOTHING;
END
$$;
