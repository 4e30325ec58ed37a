-- Marks a content as complete. A content that fits in memory is compared with its hash as a whole. For a
-- larger one put_chunk compared each chunk, and the reader compares the whole; for one in a bucket only the
-- announcement of each part is known.
-- Errors: FWINV (a chunk is lacking, the hash differs).
CREATE OR REPLACE FUNCTION fetchwork.complete_content(content_id bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    stored fetchwork.content;
    there bigint;
    bytes bigint;
BEGIN
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = complete_content.content_id;
    IF stored.complete THEN
        RETURN;
    END IF;
    SELECT
        count(*),
        CASE
            WHEN stored.bucket_id IS NULL THEN coalesce(sum(octet_length(k.data)), 0)
            ELSE least(stored.size, count(*) * fetchwork.part_bytes())
        END
    INTO there, bytes
    FROM fetchwork.content_chunk AS k
    WHERE k.content_id = stored.content_id;
    IF bytes <> stored.size THEN
        RAISE EXCEPTION '% bytes of a content are there; allowed: its %',
            bytes, stored.size USING ERRCODE = 'FWINV';
    END IF;
    IF stored.bucket_id IS NULL
        AND stored.size <= 16 * fetchwork.chunk_bytes()
        AND stored.sha256 <> sha256(coalesce((
            SELECT string_agg(k.data, '' ORDER BY k.n)
            FROM fetchwork.content_chunk AS k
            WHERE k.content_id = stored.content_id
        ), ''))
    THEN
        RAISE EXCEPTION 'a content is not what was announced: did the file change while it was sent?'
            USING ERRCODE = 'FWINV';
    END IF;
    UPDATE fetchwork.content AS c
    SET complete = true
    WHERE c.content_id = stored.content_id;
END
$$;
