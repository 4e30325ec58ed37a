-- Stores new output of a run: at most a chunk of stdout and one of stderr, each with its position in the file
-- (NULL: nothing new). ended: the output is complete or, with a problem, the host can't read it. Keeps the
-- last 256 KiB of each stream; a chunk that is sent twice is kept once. Returns whether the output is still
-- watched. Errors: FWTOK (another run's token).
-- Locks: the row of output_watch, so that chunks of a swept watch do not come back.
CREATE OR REPLACE FUNCTION fetchwork.ship_output(
    run_id bigint,
    token uuid,
    stdout_at bigint,
    stdout bytea,
    stderr_at bigint,
    stderr bytea,
    ended boolean DEFAULT false,
    problem text DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    watched fetchwork.output_watch;
BEGIN
    SELECT w.*
    INTO watched
    FROM fetchwork.output_watch AS w
    WHERE w.run_id = ship_output.run_id
    FOR UPDATE;
    IF NOT FOUND OR watched.ended THEN
        RETURN false;
    END IF;
    IF NOT fetchwork.proves(ship_output.token, watched.token, watched.host_id) THEN
        RAISE EXCEPTION 'the token is not that of run %', ship_output.run_id USING ERRCODE = 'FWTOK';
    END IF;
    INSERT INTO fetchwork.output_chunk AS c (run_id, stream, starts_at, content)
    SELECT ship_output.run_id, n.stream, n.starts_at, n.content
    FROM (VALUES
        (1::smallint, ship_output.stdout_at, ship_output.stdout),
        (2::smallint, ship_output.stderr_at, ship_output.stderr)
    ) AS n (stream, starts_at, content)
    WHERE n.starts_at IS NOT NULL AND octet_length(n.content) > 0
        -- not a chunk that overlaps a stored one
        AND n.starts_at >= coalesce(
            (
                SELECT max(o.starts_at + octet_length(o.content))
                FROM fetchwork.output_chunk AS o
                WHERE o.run_id = ship_output.run_id AND o.stream = n.stream
            ),
            0
        );
    DELETE FROM fetchwork.output_chunk AS c
    WHERE c.run_id = ship_output.run_id
        AND c.starts_at < CASE c.stream
            WHEN 1 THEN ship_output.stdout_at + octet_length(ship_output.stdout)
            ELSE ship_output.stderr_at + octet_length(ship_output.stderr)
        END - 262144;
    IF ship_output.ended THEN
        UPDATE fetchwork.output_watch AS w
        SET ended = true, problem = left(ship_output.problem, 300)
        WHERE w.run_id = ship_output.run_id;
        RETURN false;
    END IF;
    RETURN watched.watched_until > clock_timestamp();
END
$$;
