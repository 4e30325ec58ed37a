-- Deletes the stored output of runs that are no longer watched. Locks: the rows of output_watch that it
-- deletes; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.sweep_output()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    gone bigint[];
BEGIN
    SELECT array_agg(u.run_id)
    INTO gone
    FROM (
        SELECT w.run_id
        FROM fetchwork.output_watch AS w
        WHERE w.watched_until < clock_timestamp() - interval '30 s'
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    ) AS u;
    IF gone IS NOT NULL THEN
        DELETE FROM fetchwork.output_chunk AS c
        WHERE c.run_id = ANY (gone);
        DELETE FROM fetchwork.output_watch AS w
        WHERE w.run_id = ANY (gone);
    END IF;
END
$$;
