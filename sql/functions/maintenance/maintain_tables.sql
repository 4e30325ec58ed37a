-- Keeps the tables in order: makes the partitions of history and events for the next days, drops expired ones
-- (settings history_days, event_days), and forgets old keys of submissions (submission_days), and clusters,
-- slots, hosts, backoffs, autoclusters, batches and submitters that nothing refers to. Agents call it each
-- hour; repeating a call is harmless.
-- Rows in a default partition stay there; they are dropped by time as well. A table with a long reader waits
-- for the next call (functions/maintenance/renew_partitions.sql): partitions are made early enough for that.
-- The tables are locked last, and so only for a moment.
CREATE OR REPLACE FUNCTION fetchwork.maintain_tables()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parent text;
    event_limit timestamptz := date_trunc('day', now(), 'UTC') - fetchwork.setting_time('event_days');
    history_limit timestamptz := date_trunc('month', now(), 'UTC') - fetchwork.setting_time('history_days');
BEGIN
    IF NOT fetchwork.take_turn('tables') THEN
        RETURN;
    END IF;
    -- brought() needs the run's row of a job whose outputs are yet to be delivered
    SELECT least(history_limit, min(h.ended_at))
    INTO history_limit
    FROM fetchwork.bringing AS b
    JOIN fetchwork.run_history AS h ON h.run_id = b.run_id;
    IF EXISTS (SELECT FROM fetchwork.event_default AS e WHERE e.at < event_limit) THEN
        UPDATE fetchwork.event_floor AS f
        SET batch = last.batch, event_id = last.event_id
        FROM (
            SELECT e.batch, e.event_id
            FROM fetchwork.event_default AS e
            WHERE e.at < event_limit AND e.batch IS NOT NULL
            ORDER BY e.batch DESC, e.event_id DESC
            LIMIT 1
        ) AS last
        WHERE (f.batch, f.event_id) < (last.batch, last.event_id);
        DELETE FROM fetchwork.event_default AS e
        WHERE e.at < event_limit;
    END IF;
    DELETE FROM fetchwork.job_history_default AS h
    WHERE h.completed_at < history_limit;
    DELETE FROM fetchwork.run_history_default AS h
    WHERE h.ended_at < history_limit;
    -- their jobs were in partitions of a month, and a partition with a reader goes later
    DELETE FROM fetchwork.past_owner AS p
    WHERE p.forgotten_at < history_limit - interval '2 months';
    DELETE FROM fetchwork.cluster AS c
    WHERE c.submitted_at < history_limit
        AND NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = c.cluster_id)
        AND NOT EXISTS (SELECT FROM fetchwork.factory AS f WHERE f.cluster_id = c.cluster_id)
        AND NOT EXISTS (SELECT FROM fetchwork.job_history AS h WHERE h.cluster_id = c.cluster_id);
    DELETE FROM fetchwork.submission AS s
    WHERE s.submitted_at < now() - fetchwork.setting_time('submission_days');
    DELETE FROM fetchwork.slot_rest AS r
    WHERE r.rest_until < now() - fetchwork.setting_time('max_refusal_rest');
    -- a copy for a host is wanted again when a job needs it
    DELETE FROM fetchwork.host_credential AS c
    WHERE c.wanted_at < now() - interval '1 day';
    -- a slot without a job of ours that has not asked for so long is gone, or comes back with its next fetch
    DELETE FROM fetchwork.slot AS s
    WHERE s.last_fetch_at < now() - CASE
            WHEN s.slot_type = 'Dynamic' THEN interval '1 hour'
            ELSE interval '2 days'
        END
        AND NOT EXISTS (
            SELECT FROM fetchwork.run AS r
            WHERE r.host_id = s.host_id AND r.slot = s.name
        );

    -- a host that has been silent for so long is gone; if it is not, it says hello again (beat)
    DELETE FROM fetchwork.host AS h
    WHERE h.seen_at < now() - interval '30 days'
        AND (h.lease_until IS NULL OR h.lease_until < now())
        AND NOT EXISTS (SELECT FROM fetchwork.slot AS s WHERE s.host_id = h.host_id)
        AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = h.host_id);

    PERFORM fetchwork.forget();
    PERFORM fetchwork.forget_files();
    PERFORM fetchwork.forget_identities();

    FOREACH parent IN ARRAY ARRAY['event', 'job_history', 'run_history'] LOOP
        BEGIN
            PERFORM fetchwork.renew_partitions(
                parent, CASE parent WHEN 'event' THEN event_limit ELSE history_limit END
            );
        EXCEPTION
            WHEN lock_not_available THEN NULL;
        END;
    END LOOP;
END
$$;
