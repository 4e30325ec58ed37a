-- Stores the outputs of a live run in one transaction, if they are a few contents of at most one chunk each:
-- stores them (put_whole_contents), notes bytes and seconds (note_transfer), and keeps the manifest
-- (keep_outputs). Returns as keep_outputs. Repeating a call is harmless. Errors, locks: as these three.
CREATE OR REPLACE FUNCTION fetchwork.leave_outputs(
    run_id bigint,
    token uuid,
    manifest jsonb,
    datas bytea [],
    seconds double precision
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    answer text;
    bytes bigint;
    waits text := current_setting('synchronous_commit');
BEGIN
    IF NOT fetchwork.put_whole_contents(NULL, datas, leave_outputs.run_id, leave_outputs.token) THEN
        RETURN 'late';
    END IF;
    answer := fetchwork.keep_outputs(leave_outputs.run_id, leave_outputs.token, manifest);
    SELECT coalesce(sum(octet_length(d.data)), 0)
    INTO bytes
    FROM unnest(datas) AS d (data);
    PERFORM fetchwork.note_transfer(
        leave_outputs.run_id, leave_outputs.token, NULL, 'output', bytes,
        leave_outputs.seconds + extract(epoch FROM clock_timestamp() - now())::double precision
    );
    -- this commit waits for the disk
    PERFORM set_config('synchronous_commit', waits, true);
    RETURN answer;
END
$$;
