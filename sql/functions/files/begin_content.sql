-- Begins to store a content, or continues one that was begun: of a live run, by its token (no row if the run
-- is over), or of an Owner. Its id, whether it is complete, and which chunks are there; with part_bytes,
-- which parts of this size are in its bucket (content_url). Two submitters that store the same content at
-- once may share it or store it twice; both are right. A run's contents are identified by their hashes.
-- Errors: FWTOK (another run's token), FWDEN (another's Owner; a limit of check_file_room: the message is for
-- people), FWINV (the hash).
-- Locks: of a run only rows that nothing but its own agent locks.
CREATE OR REPLACE FUNCTION fetchwork.begin_content(
    owner text,
    sha256 text,
    size bigint,
    run_id bigint DEFAULT NULL,
    token uuid DEFAULT NULL
)
RETURNS TABLE (content_id bigint, complete boolean, chunks integer [], part_bytes bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    of_owner text := fetchwork.content_owner(begin_content.owner, begin_content.run_id, begin_content.token);
    hash bytea := fetchwork.checked_sha256(begin_content.sha256);
    known fetchwork.content;
BEGIN
    IF of_owner IS NULL THEN
        RETURN;
    END IF;
    LOOP
        SELECT c.*
        INTO known
        FROM (
            SELECT s.*
            FROM fetchwork.content AS s
            WHERE begin_content.run_id IS NULL
                AND s.run_id IS NULL
                AND s.owner = of_owner
                AND s.sha256 = hash
                AND s.size = begin_content.size
            UNION ALL
            SELECT r.*
            FROM fetchwork.content AS r
            WHERE r.run_id = begin_content.run_id AND r.sha256 = hash AND r.size = begin_content.size
        ) AS c
        ORDER BY c.complete DESC, c.content_id DESC
        LIMIT 1;
        EXIT WHEN FOUND;
        PERFORM fetchwork.check_file_room(of_owner, begin_content.size, begin_content.size);
        INSERT INTO fetchwork.content AS c (owner, sha256, size, run_id, bucket_id)
        VALUES (
            of_owner, hash, begin_content.size, begin_content.run_id,
            (SELECT b.bucket_id FROM fetchwork.bucket AS b WHERE b.used AND begin_content.size > b.above)
        )
        ON CONFLICT DO NOTHING
        RETURNING c.* INTO known;
        IF FOUND THEN
            INSERT INTO fetchwork.content_change (owner, bytes)
            VALUES (of_owner, begin_content.size);
            EXIT;
        END IF;
        -- begun at the same moment by another call
    END LOOP;
    RETURN QUERY
    SELECT
        known.content_id, known.complete,
        ARRAY(
            SELECT k.n
            FROM fetchwork.content_chunk AS k
            WHERE k.content_id = known.content_id AND (known.run_id IS NOT NULL OR NOT known.complete)
            ORDER BY k.n
        ),
        CASE WHEN known.bucket_id IS NOT NULL THEN fetchwork.part_bytes() END;
END
$$;
