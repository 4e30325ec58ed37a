-- Makes all numbers that the schema gives out (jobs, runs, positions, events, hosts, ...) skip those that the
-- transactions after a backup may have taken, because agents, readers and people still know these. Once for
-- each identity of the server, unless forced. Called by note_move; and by next_cluster and hello, because a
-- job or a host may come before an agent has noticed the move.
-- The number of lost ids is unknown. The gap grows with the time since the last call of reap that this
-- database remembers: for each second 50 of the integers, which HTCondor's job ids are, and 10 000 of the
-- others.
-- Locks: none. Sequences take no part in transactions, so a submitter's open transaction does not keep others
-- from noticing the move; two calls at the same moment skip twice.
CREATE OR REPLACE FUNCTION fetchwork.skip_ids(forced boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here bigint := hashtextextended(fetchwork.server_identity(), 0) & 9223372036854775806 | 1;
    before bigint := pg_sequence_last_value('fetchwork.ids_server'::regclass);
    away_s bigint;
BEGIN
    IF before IS DISTINCT FROM here THEN
        PERFORM setval('fetchwork.ids_server', here);
    ELSIF NOT forced THEN
        RETURN;
    END IF;
    IF before IS NULL AND NOT forced THEN
        RETURN;
    END IF;
    SELECT greatest(200, extract(epoch FROM clock_timestamp() - h.reaped_at))::bigint
    INTO away_s
    FROM fetchwork.heartbeat AS h;
    PERFORM setval(
        format('%I.%I', s.schemaname, s.sequencename)::regclass,
        least(
            coalesce(s.last_value, 0)
            + away_s * CASE WHEN s.data_type = 'integer'::regtype THEN 50 ELSE 10000 END,
            s.max_value
        )
    )
    FROM pg_sequences AS s
    WHERE s.schemaname = 'fetchwork' AND s.sequencename NOT IN ('ids_server', 'event_batch');
END
$$;
