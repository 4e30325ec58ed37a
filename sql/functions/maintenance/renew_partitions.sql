-- Makes the partitions that a table needs ahead and drops expired ones, for maintain_tables(). A partition of
-- "event" is a day, and seven are made ahead; of the histories a month, and two.
-- Locks: the table, ACCESS EXCLUSIVE, to the end of the transaction, and only if there is something to do.
-- Waits for it 0.1 s at most (SQLSTATE 55P03 then): all writers of events queue behind this wait, and a dump
-- of the database may read the table for hours.
CREATE OR REPLACE FUNCTION fetchwork.renew_partitions(parent text, keep_from timestamptz)
RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '100ms'
AS $$
DECLARE
    period text := CASE parent WHEN 'event' THEN 'day' ELSE 'month' END;
    format_of_name text := CASE parent WHEN 'event' THEN 'YYYYMMDD' ELSE 'YYYYMM' END;
    first_at timestamp := date_trunc(period, now() AT TIME ZONE 'UTC');
    old text[];
    new_at timestamp[];
    start_at timestamp;
    child text;
    last record;
BEGIN
    SELECT array_agg(t.at ORDER BY t.at)
    INTO new_at
    FROM (
        SELECT first_at + n * ('1 ' || period)::interval AS at
        FROM generate_series(1, CASE parent WHEN 'event' THEN 7 ELSE 2 END) AS n
    ) AS t
    WHERE to_regclass(format('fetchwork.%I', parent || '_' || to_char(t.at, format_of_name))) IS NULL;

    SELECT array_agg(c.relname)
    INTO old
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = format('fetchwork.%I', parent)::regclass
        AND (
            regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('([^']+)'\)$re$)
        )[1]::timestamptz <= keep_from;

    IF new_at IS NULL AND old IS NULL THEN
        RETURN;
    END IF;
    -- lock at once in the mode of the last step, the parent before its partitions, as writers do
    EXECUTE format('LOCK TABLE fetchwork.%I IN ACCESS EXCLUSIVE MODE', parent);
    FOREACH start_at IN ARRAY coalesce(new_at, '{}') LOOP
        PERFORM fetchwork.ensure_partition(
            parent, start_at AT TIME ZONE 'UTC', (start_at + ('1 ' || period)::interval) AT TIME ZONE 'UTC',
            to_char(start_at, format_of_name)
        );
    END LOOP;
    FOREACH child IN ARRAY coalesce(old, '{}') LOOP
        IF parent = 'event' THEN
            -- a reader whose cursor lies before the partition's last event learns that events are missing
            EXECUTE format(
                'SELECT e.batch, e.event_id FROM fetchwork.%I AS e WHERE e.batch IS NOT NULL '
                'ORDER BY e.batch DESC, e.event_id DESC LIMIT 1',
                child
            )
            INTO last;
            UPDATE fetchwork.event_floor AS f
            SET batch = last.batch, event_id = last.event_id
            WHERE (f.batch, f.event_id) < (last.batch, last.event_id);
        END IF;
        EXECUTE format('DROP TABLE fetchwork.%I', child);
    END LOOP;
END
$$;
