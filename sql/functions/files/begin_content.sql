-- Begins to store a content for an owner, or continues one that was begun: its id, whether it is complete,
-- and which chunks are there; with part_bytes, which parts of this size are in its bucket (content_part_url).
-- Two callers that store the same content at once may share it or store it twice; both are right.
-- Errors: FWDEN (another's Owner, a limit), FWINV (the hash).
CREATE OR REPLACE FUNCTION fetchwork.begin_content(owner text, sha256 text, size bigint)
RETURNS TABLE (content_id bigint, complete boolean, chunks integer [], part_bytes bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    hash bytea := fetchwork.checked_sha256(begin_content.sha256);
    known fetchwork.content;
BEGIN
    PERFORM fetchwork.require_owner(begin_content.owner, 'keep or read files');
    SELECT c.*
    INTO known
    FROM fetchwork.content AS c
    WHERE c.owner = begin_content.owner
        AND c.run_id IS NULL
        AND c.sha256 = hash
        AND c.size = begin_content.size
    ORDER BY c.complete DESC, c.content_id DESC
    LIMIT 1;
    IF NOT FOUND THEN
        PERFORM fetchwork.check_file_room(begin_content.owner, begin_content.size, begin_content.size);
        INSERT INTO fetchwork.content AS c (owner, sha256, size, bucket_id)
        VALUES (
            begin_content.owner, hash, begin_content.size, fetchwork.bucket_for(begin_content.size)
        )
        RETURNING c.* INTO known;
        INSERT INTO fetchwork.content_change (owner, bytes)
        VALUES (begin_content.owner, begin_content.size);
    END IF;
    RETURN QUERY
    SELECT
        known.content_id, known.complete,
        ARRAY(
            SELECT k.n
            FROM fetchwork.content_chunk AS k
            WHERE k.content_id = known.content_id AND NOT known.complete
            ORDER BY k.n
        ),
        CASE WHEN known.bucket_id IS NOT NULL THEN fetchwork.part_bytes() END;
END
$$;
