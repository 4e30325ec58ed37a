-- Notes of a live run that its files are moved: phase 'input' or 'output' from the beginning, and NULL for
-- phase when that is over; with direction, bytes and seconds of what was moved. While outputs are, the slot
-- is free for other work (slot_is_free, claim). False if the run is over, or if another transaction holds
-- its row: who wants it noted asks again.
-- By itself it does not wait for the server's disk: a crash that forgets it forgets nothing that anything
-- depends on.
-- Errors: FWDEN (another's token). Locks: the run, without waiting.
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
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(note_transfer.run_id, note_transfer.token);
BEGIN
    IF note_transfer.phase NOT IN ('input', 'output')
        OR note_transfer.direction NOT IN ('input', 'output')
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'phase is %L and direction %L; allowed: input, output, NULL',
                note_transfer.phase, note_transfer.direction
            );
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
