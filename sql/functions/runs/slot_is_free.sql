-- Detector 1 of dead runs: a slot asks for work, so a run that was accepted for it or ran on it is over,
-- although no JOB_EXIT reported it. Returns how many runs that ended. The agent replays its spool before it
-- lets a slot ask, so a report that waits there is not lost.
-- A run that had started is lost, and its job waits again. A run that was accepted and never started shows a
-- job that a starter can't start without reporting it (no such account, wrong universe): the try is counted,
-- and the job Held at the limit. A run offered seconds ago is an offer that did not arrive: the claim's
-- answer was lost, or the hook or the agent died with it.
-- A dynamic slot (slot1_2) has ten seconds after the claim: for an ad that it fetched, HTCondor 25 may make
-- another dynamic slot, and let the first one ask again at once. The run then moves to the slot that
-- PREPARE_JOB names.
-- Locks: the jobs and runs; SKIP LOCKED, because a run whose job another transaction holds is not silent, and
-- because this function may hold several rows, so it must not wait for the next.
CREATE OR REPLACE FUNCTION fetchwork.slot_is_free(host_id integer, slot text)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    candidate record;
    live fetchwork.run;
    ended integer := 0;
BEGIN
    PERFORM fetchwork.require_host(slot_is_free.host_id);
    FOR candidate IN
        SELECT r.run_id, r.token, r.cluster_id, r.proc_id
        FROM fetchwork.run AS r
        WHERE r.host_id = slot_is_free.host_id
            AND r.slot = slot_is_free.slot
            -- the starter is gone, but the agent still uploads its outputs
            AND r.transferring IS DISTINCT FROM 'output'
            AND (
                r.state = 'running'
                OR CASE
                    WHEN r.slot ~ '_[0-9]+(@|$)'
                        THEN coalesce(r.accepted_at, r.claimed_at) < clock_timestamp() - interval '10 s'
                    WHEN r.state = 'reserved'
                        THEN r.claimed_at < clock_timestamp() - interval '2 s'
                    ELSE true
                END
            )
        ORDER BY r.cluster_id, r.proc_id
    LOOP
        PERFORM FROM fetchwork.job AS j
        WHERE j.cluster_id = candidate.cluster_id AND j.proc_id = candidate.proc_id
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        live := fetchwork.live_run(candidate.run_id, candidate.token);
        CONTINUE WHEN live.run_id IS NULL;
        ended := ended + 1;
        IF live.state = 'running' THEN
            PERFORM fetchwork.lose_run(live, format('slot %s asked for new work', live.slot));
        ELSE
            PERFORM fetchwork.give_up_offer(live);
        END IF;
    END LOOP;
    RETURN ended;
END
$$;
