-- Notes a transfer of a live run's files: phase 'input' or 'output' at its beginning, NULL at its end; with
-- the direction, bytes and seconds of the transferred files. During phase 'output' the slot is free for other
-- work (slot_is_free, claim). False if the run is over, or if another transaction holds its row: the caller
-- tries again. Does not wait for the server's disk: nothing depends on a note that a crash loses.
-- Errors: FWTOK (another run's token), FWINV (phase, direction). Locks: the run, without waiting.
CREATE OR REPLACE FUNCTION fetchwork.note_transfer(
    run_id bigint,
    token uuid,
    phase text,
    direction text DEFAULT NULL,
    bytes bigint DEFAULT NULL,
    seconds double precision DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(note_transfer.run_id, note_transfer.token);
BEGIN
    IF note_transfer.phase NOT IN ('input', 'output')
        OR note_transfer.direction NOT IN ('input', 'output')
    THEN
        RAISE EXCEPTION 'phase is % and direction %; allowed: input, output, NULL',
            quote_nullable(note_transfer.phase), quote_nullable(note_transfer.direction)
            USING ERRCODE = 'FWINV';
    END IF;
    PERFORM FROM fetchwork.run AS r
    WHERE r.run_id = live.run_id
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.run AS r
    SET transferring = note_transfer.phase,
        transfer = CASE
            WHEN note_transfer.direction IS NULL THEN r.transfer
            ELSE coalesce(r.transfer, '{}') || jsonb_build_object(
                format('Transfer%sBytes', initcap(note_transfer.direction)), note_transfer.bytes,
                format('Transfer%sSeconds', initcap(note_transfer.direction)), note_transfer.seconds
            )
        END
    WHERE r.run_id = live.run_id;
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN true;
END
$$;
