-- Daily housekeeping: makes the partitions of history and events for the next days, drops those past their time (settings history_days, event_days), and
-- forgets clusters, autoclusters' empty counts, slots and rests that nothing refers to. Agents call it each hour; repeating it is harmless.
--
-- Partitions are a day of events or a month of history. Rows that reached a default partition stay there; they are dropped by time as well.
CREATE OR REPLACE FUNCTION fetchwork.maintain()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    part record;
    from_at timestamptz;
    until_at timestamptz;
    child text;
    n integer;
    event_limit timestamptz := date_trunc('day', now(), 'UTC') - make_interval(days => fetchwork.setting_value('event_days')::integer);
    history_limit timestamptz := date_trunc('month', now(), 'UTC') - make_interval(days => fetchwork.setting_value('history_days')::integer);
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('fetchwork maintain', 0)) THEN
        RETURN;
    END IF;
    FOR n IN 1 .. 7 LOOP
        from_at := date_trunc('day', now(), 'UTC') + make_interval(days => n);
        PERFORM fetchwork.ensure_partition('event', from_at, from_at + interval '1 day', to_char(from_at AT TIME ZONE 'UTC', 'YYYYMMDD'));
    END LOOP;
    FOR n IN 1 .. 2 LOOP
        from_at := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
        until_at := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n + 1)) AT TIME ZONE 'UTC';
        from_at := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n)) AT TIME ZONE 'UTC';
        FOREACH child IN ARRAY ARRAY['job_history', 'run_history'] LOOP
            PERFORM fetchwork.ensure_partition(child, from_at, until_at, to_char(from_at AT TIME ZONE 'UTC', 'YYYYMM'));
        END LOOP;
    END LOOP;

    FOR part IN
        SELECT p.relname AS parent, c.relname AS child,
            (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('([^']+)'\)$re$))[1]::timestamptz AS until_at
        FROM pg_inherits AS i
        JOIN pg_class AS p ON p.oid = i.inhparent
        JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE p.relnamespace = 'fetchwork'::regnamespace AND p.relkind = 'p' AND c.relkind = 'r'
    LOOP
        IF part.until_at <= (CASE part.parent WHEN 'event' THEN event_limit ELSE history_limit END) THEN
            IF part.parent = 'event' THEN
                PERFORM fetchwork.note_dropped_events(part.child);
            END IF;
            EXECUTE format('DROP TABLE fetchwork.%I', part.child);
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM fetchwork.event_default AS e WHERE e.at < event_limit) THEN
        UPDATE fetchwork.event_floor AS f SET (xid, event_id) = (
            SELECT e.xid, e.event_id FROM fetchwork.event_default AS e WHERE e.at < event_limit ORDER BY e.xid DESC, e.event_id DESC LIMIT 1);
        DELETE FROM fetchwork.event_default AS e WHERE e.at < event_limit;
    END IF;
    DELETE FROM fetchwork.job_history_default AS h WHERE h.completed_at < history_limit;
    DELETE FROM fetchwork.run_history_default AS h WHERE h.ended_at < history_limit;
    DELETE FROM fetchwork.cluster AS c
    WHERE c.submitted_at < history_limit
        AND NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = c.cluster_id)
        AND NOT EXISTS (SELECT FROM fetchwork.job_history AS h WHERE h.cluster_id = c.cluster_id);
    DELETE FROM fetchwork.slot_rest AS r WHERE r.rest_until < now() - make_interval(secs => fetchwork.setting_value('max_refusal_rest')::double precision);
    DELETE FROM fetchwork.slot AS s WHERE s.last_fetch_at < now() - interval '30 days';
END
$$;
