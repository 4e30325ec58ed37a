-- Keeps the queue in order: gives up runs that fell silent, puts jobs whose delay is over into the queue,
-- holds jobs that hosts could not evaluate, ends black holes on which a job goes on well, adds up counts,
-- counts what ended, ends demand for what was removed, lets go of files that nobody needs, holds jobs
-- whose files no access point brings back, ends what leave_in_queue keeps for too long, and drops output
-- that nobody watches. Agents call it every second or two; a pool without agents needs a timer that does.
-- Returns how many were reaped, woken, folded.
CREATE OR REPLACE FUNCTION fetchwork.maintain_queue(OUT reaped integer, OUT woken integer, OUT folded integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    reaped := fetchwork.reap();
    woken := fetchwork.wake();
    PERFORM fetchwork.hold_faulty();
    PERFORM fetchwork.notice_good_runs();
    folded := fetchwork.fold();
    PERFORM fetchwork.count_runs();
    PERFORM fetchwork.sweep_demand();
    PERFORM fetchwork.drop_files();
    PERFORM fetchwork.give_up_bringing();
    PERFORM fetchwork.end_stays();
    PERFORM fetchwork.sweep_output();
END
$$;
