-- Notes the numbers of idle jobs by owner and queue, once in five minutes, for the view idle_counts. They are
-- kept for eight days; over two hours ago those of each quarter of an hour. maintain_queue calls it.
-- Locks: the row of "counted"; a concurrent call returns at once.
CREATE OR REPLACE FUNCTION fetchwork.count_idle()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    this_time timestamptz := date_bin('5 minutes', now(), 'epoch');
    last timestamptz;
BEGIN
    SELECT c.idle_at
    INTO last
    FROM fetchwork.counted AS c
    FOR UPDATE SKIP LOCKED;
    IF last IS NULL OR last >= this_time THEN
        RETURN;
    END IF;
    INSERT INTO fetchwork.idle_count (at, owner, queue, idle)
    SELECT this_time, t.owner, t.fetchworkqueue, sum(t.idle)
    FROM fetchwork.totals AS t
    WHERE t.idle > 0
    GROUP BY t.owner, t.fetchworkqueue;
    DELETE FROM fetchwork.idle_count AS k
    WHERE k.at < now() - interval '8 days'
        OR (
            k.at >= least(last, now()) - interval '150 minutes'
            AND k.at < now() - interval '2 hours'
            AND k.at <> date_bin('15 minutes', k.at, 'epoch')
        );
    UPDATE fetchwork.counted AS c
    SET idle_at = this_time;
END
$$;
