-- Begins a content that a live run leaves, or continues it: its id, and which chunks are there; with
-- part_bytes, which parts of this size are in its bucket (output_part_url). No row if the run is over. A
-- run's contents are identified by their hashes.
-- Errors: FWTOK (another run's token), FWDEN (a limit of check_file_room: the message is for people).
-- Locks: only rows that nothing but the run's own agent locks.
CREATE OR REPLACE FUNCTION fetchwork.begin_output(run_id bigint, token uuid, sha256 text, size bigint)
RETURNS TABLE (content_id bigint, chunks integer [], part_bytes bigint)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(begin_output.run_id, begin_output.token);
    hash bytea := fetchwork.checked_sha256(begin_output.sha256);
    of_owner text;
    known bigint;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN;
    END IF;
    SELECT c.content_id
    INTO known
    FROM fetchwork.content AS c
    WHERE c.run_id = live.run_id AND c.sha256 = hash AND c.size = begin_output.size;
    IF known IS NULL THEN
        SELECT j.owner
        INTO of_owner
        FROM fetchwork.job AS j
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
        PERFORM fetchwork.check_file_room(of_owner, begin_output.size, begin_output.size);
        INSERT INTO fetchwork.content AS c (owner, sha256, size, run_id, bucket_id)
        VALUES (
            of_owner, hash, begin_output.size, live.run_id, fetchwork.bucket_for(begin_output.size)
        )
        ON CONFLICT DO NOTHING
        RETURNING c.content_id INTO known;
        IF known IS NULL THEN
            -- begun at the same moment by another call
            SELECT c.content_id
            INTO known
            FROM fetchwork.content AS c
            WHERE c.run_id = live.run_id AND c.sha256 = hash AND c.size = begin_output.size;
        ELSE
            INSERT INTO fetchwork.content_change (owner, bytes)
            VALUES (of_owner, begin_output.size);
        END IF;
    END IF;
    RETURN QUERY
    SELECT
        c.content_id,
        ARRAY(
            SELECT k.n
            FROM fetchwork.content_chunk AS k
            WHERE k.content_id = c.content_id
            ORDER BY k.n
        ),
        CASE WHEN c.bucket_id IS NOT NULL THEN fetchwork.part_bytes() END
    FROM fetchwork.content AS c
    WHERE c.content_id = known;
END
$$;
