-- Makes all numbers that the schema gives out (jobs, runs, positions, events, hosts, ...) skip those that the
-- transactions after a backup may have taken, because agents, readers and people still know these. Once for
-- each identity of the server, unless forced. Called by note_move; and by next_cluster and hello, because a
-- job or a host may come before an agent has noticed the move.
-- The number of lost ids is unknown. The gap grows with the time since the last call of reap that this
-- database remembers: for each second 50 of the integers, which HTCondor's job ids are, and 10 000 of the
-- others.
-- Sequences take no part in transactions, so the lock is given back, by a rollback, at the end of the call,
-- and a submitter's open transaction does not keep others from noticing the move. The move counts as noticed
-- when all numbers have been skipped: a second call at the same moment waits, and none returns before.
-- Without the lock it could set back a sequence that it has read before the first call skipped, and ids drawn
-- in between would be given out again.
-- Locks: the turn "ids", during the call.
CREATE OR REPLACE FUNCTION fetchwork.skip_ids(forced boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here bigint := hashtextextended(fetchwork.server_identity(), 0) & 9223372036854775806 | 1;
    before bigint;
    away_s bigint;
BEGIN
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = 'ids'
    FOR NO KEY UPDATE;
    before := pg_sequence_last_value('fetchwork.ids_server'::regclass);
    IF forced OR before <> here THEN
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
    END IF;
    PERFORM setval('fetchwork.ids_server', here);
    RAISE EXCEPTION 'the turn is over' USING ERRCODE = 'FWEND';
EXCEPTION
    WHEN SQLSTATE 'FWEND' THEN
        NULL;
END
$$;
