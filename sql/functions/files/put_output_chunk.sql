-- Stores a chunk of a content that begin_output began; n counts from 0, each chunk but the last has 1 MiB.
-- The bytes must match sha256, in hex, if it is given. Repeating a call is harmless. False if the run is
-- over.
-- Errors: FWTOK (another run's token), FWNOT (not a content of the run), FWINV (length, hash).
CREATE OR REPLACE FUNCTION fetchwork.put_output_chunk(
    run_id bigint,
    token uuid,
    content_id bigint,
    n integer,
    data bytea,
    sha256 text DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(put_output_chunk.run_id, put_output_chunk.token);
    stored fetchwork.content;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN false;
    END IF;
    SELECT c.*
    INTO stored
    FROM fetchwork.content AS c
    WHERE c.content_id = put_output_chunk.content_id AND c.run_id = live.run_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'content % is not one of run %',
            put_output_chunk.content_id, live.run_id USING ERRCODE = 'FWNOT';
    END IF;
    PERFORM fetchwork.add_chunk(
        stored, put_output_chunk.n, put_output_chunk.data,
        CASE
            WHEN put_output_chunk.sha256 IS NOT NULL THEN fetchwork.checked_sha256(put_output_chunk.sha256)
        END
    );
    RETURN true;
END
$$;
