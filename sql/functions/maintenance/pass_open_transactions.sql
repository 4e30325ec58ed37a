-- Lets readers of events go on where a transaction that is left open has held them back for longer than the
-- setting max_reader_lag. Such a one need not be fetchwork's: any that has a transaction id, in any database
-- of the server, keeps pg_snapshot_xmin where it is.
--
-- Whoever writes an event keeps ROW EXCLUSIVE on the table to his end, so who gets SHARE knows that no open
-- transaction has written any. All of them are passed then: passed_xid becomes the id of this transaction,
-- in the sequence, which they see whatever their snapshot is, so that what they write later stands behind it;
-- and in event_floor, which readers see from the commit on, with all events that were committed before.
--
-- A transaction that has written events can't be passed: they would appear behind the readers. It is ended
-- instead (pg_terminate_backend), unless it is a superuser's; its client learns that its connection broke,
-- and nothing of it has happened. For that the owner of the schema has to be a superuser, or a member of
-- pg_signal_backend and pg_read_all_stats; if it is not, readers wait for such transactions.
--
-- Called last in its transaction, which ends then: behind SHARE all who write events would queue. It is not
-- waited for longer than 0.1 s. True if readers may go on.
CREATE OR REPLACE FUNCTION fetchwork.pass_open_transactions()
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    max_lag interval := make_interval(secs => fetchwork.setting_value('max_reader_lag')::double precision);
    horizon xid8;
    added bigint;
    waited_since timestamptz;
    here xid8;
    writers integer[];
    ordinary integer[];
BEGIN
    SELECT w.horizon, f.xid_offset
    INTO horizon, added
    FROM fetchwork.event_floor AS f
    CROSS JOIN fetchwork.event_window('0', 0) AS w;
    -- the first event that is committed and that nobody may read yet
    SELECT e.at
    INTO waited_since
    FROM fetchwork.event AS e
    WHERE e.xid >= horizon
    ORDER BY e.xid, e.event_id
    LIMIT 1;
    IF waited_since IS NULL OR waited_since > clock_timestamp() - max_lag THEN
        RETURN false;
    END IF;
    SELECT array_agg(s.pid), array_agg(s.pid) FILTER (WHERE NOT r.rolsuper)
    INTO writers, ordinary
    FROM pg_stat_activity AS s
    JOIN pg_roles AS r ON r.oid = s.usesysid
    WHERE s.xact_start < clock_timestamp() - max_lag
        AND s.pid <> pg_backend_pid()
        AND s.pid IN (
            SELECT l.pid
            FROM pg_locks AS l
            JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
            WHERE l.relation = 'fetchwork.event'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
        );
    IF writers IS NOT NULL THEN
        IF pg_has_role(current_user, 'pg_signal_backend', 'USAGE') THEN
            PERFORM pg_terminate_backend(o.pid)
            FROM unnest(ordinary) AS o (pid);
        END IF;
        -- the next call finds them gone; until then a wait for the lock would be in vain
        RETURN false;
    END IF;
    BEGIN
        LOCK TABLE fetchwork.event IN SHARE MODE;
    EXCEPTION
        WHEN lock_not_available THEN
            RETURN false;
    END;
    here := (pg_current_xact_id()::text::bigint + added)::text::xid8;
    PERFORM setval('fetchwork.passed_xid', here::text::bigint);
    UPDATE fetchwork.event_floor AS f
    SET passed_xid = here;
    RETURN true;
END
$$;
