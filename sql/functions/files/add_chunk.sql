-- Stores a chunk of a content that the caller may write. A chunk that is already there stays as it is. For a
-- content in a bucket, notes only that the part is there.
-- Errors: FWINV (the length is wrong, or the hash, if one is given).
CREATE OR REPLACE FUNCTION fetchwork.add_chunk(stored fetchwork.content, n integer, data bytea, hash bytea)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    expected bigint := least(
        fetchwork.chunk_bytes(), stored.size - add_chunk.n::bigint * fetchwork.chunk_bytes()
    );
BEGIN
    IF stored.bucket_id IS NOT NULL THEN
        -- the server does not see the bytes: the reader compares the content's hash
        IF add_chunk.n < 0
            OR add_chunk.n * fetchwork.part_bytes() >= stored.size
            OR octet_length(data) <> 0
        THEN
            RAISE EXCEPTION 'part % of content % comes with % bytes; allowed: none, its bytes are '
                'in a bucket',
                add_chunk.n, stored.content_id, octet_length(data) USING ERRCODE = 'FWINV';
        END IF;
        INSERT INTO fetchwork.content_chunk (content_id, n, data)
        VALUES (stored.content_id, add_chunk.n, '')
        ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    IF add_chunk.n < 0 OR expected <= 0 OR octet_length(data) <> expected THEN
        RAISE EXCEPTION 'chunk % of a content of % bytes has %; allowed: %',
            add_chunk.n, stored.size, octet_length(data), greatest(expected, 0) USING ERRCODE = 'FWINV';
    END IF;
    IF hash <> sha256(data) THEN
        RAISE EXCEPTION 'chunk % is not what was announced: did the file change while it was sent?',
            add_chunk.n USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.content_chunk (content_id, n, data)
    VALUES (stored.content_id, add_chunk.n, add_chunk.data)
    ON CONFLICT DO NOTHING;
END
$$;
