-- Detector 3 of dead runs: gives up the runs that fell silent, and returns how many. Every agent calls it;
-- one at a time does the work, the others return at once. Silent is
-- - an offer past its deadline: the startd or the starter did nothing with it;
-- - a run past its deadline: no update, and no agent that sees its starter;
-- - a run whose host's agent let its lease expire.
-- After an outage every lease starts anew before a run is given up: if this was not called for a while, the
-- database was down or cut off, and hosts could not report.
-- Locks: the row of the turn and of heartbeat, then the jobs and runs; skips locked jobs.
CREATE OR REPLACE FUNCTION fetchwork.reap()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    beat fetchwork.heartbeat;
    dead record;
    live fetchwork.run;
    ended integer := 0;
    patience interval := fetchwork.setting_time('host_lease');
BEGIN
    IF NOT fetchwork.take_turn('reap') THEN
        RETURN 0;
    END IF;
    SELECT h.*
    INTO beat
    FROM fetchwork.heartbeat AS h;
    IF clock_timestamp() - beat.reaped_at > least(patience / 2, '15 s')
        OR pg_postmaster_start_time() > beat.reaped_at
    THEN
        -- also extend deadlines that passed while hosts could not report
        UPDATE fetchwork.run AS r
        SET deadline = clock_timestamp() + patience
        WHERE r.deadline < clock_timestamp() + patience;
        UPDATE fetchwork.host AS h
        SET lease_until = clock_timestamp() + fetchwork.host_lease(h)
        WHERE h.lease_until < clock_timestamp() + fetchwork.host_lease(h);
    END IF;
    PERFORM fetchwork.note_move();
    IF EXISTS (SELECT FROM fetchwork.heartbeat AS h WHERE h.events_server IS DISTINCT FROM h.server) THEN
        PERFORM fetchwork.put_events_behind();
    END IF;
    PERFORM fetchwork.go_on_offering(if_settled => true);
    UPDATE fetchwork.heartbeat AS h
    SET reaped_at = clock_timestamp();

    FOR dead IN
        SELECT r.run_id, r.token, r.cluster_id, r.proc_id, r.deadline >= clock_timestamp() AS host_silent
        FROM fetchwork.run AS r
        JOIN fetchwork.host AS h ON h.host_id = r.host_id
        WHERE r.deadline < clock_timestamp()
            -- a run that has reported since then is not silent, although its host's beats do not come
            OR (
                h.lease_until < clock_timestamp()
                AND greatest(r.claimed_at, r.accepted_at, r.contact_at)
                    < clock_timestamp() - fetchwork.host_lease(h)
            )
        ORDER BY r.cluster_id, r.proc_id
        LIMIT 1000
    LOOP
        -- SKIP LOCKED: a transaction that holds the job's row shows that the run is not silent; and this one
        -- holds many rows, so it must not wait for another
        PERFORM FROM fetchwork.job AS j
        WHERE j.cluster_id = dead.cluster_id AND j.proc_id = dead.proc_id
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        live := fetchwork.live_run(dead.run_id, dead.token);
        CONTINUE WHEN live.run_id IS NULL OR (NOT dead.host_silent AND live.deadline >= clock_timestamp());
        ended := ended + 1;
        IF live.state = 'running' THEN
            PERFORM fetchwork.lose_run(
                live,
                CASE WHEN dead.host_silent THEN 'its host fell silent' ELSE 'no update came in time' END
            );
        ELSE
            PERFORM fetchwork.give_up_offer(live);
        END IF;
    END LOOP;
    UPDATE fetchwork.host AS h
    SET lease_until = NULL
    WHERE h.lease_until < clock_timestamp()
        AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.host_id = h.host_id);
    RETURN ended;
END
$$;
