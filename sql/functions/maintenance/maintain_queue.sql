-- Keeps the queue in order, by the functions below. Agents call it every second or two; a pool without agents
-- needs a timer that does. Returns how many were reaped, woken, folded.
CREATE OR REPLACE FUNCTION fetchwork.maintain_queue(OUT reaped integer, OUT woken integer, OUT folded integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    reaped := fetchwork.reap();
    woken := fetchwork.wake();
    PERFORM fetchwork.materialize_due();
    PERFORM fetchwork.hold_faulty();
    PERFORM fetchwork.notice_good_runs();
    folded := fetchwork.fold();
    PERFORM fetchwork.count_runs();
    PERFORM fetchwork.count_idle();
    PERFORM fetchwork.sweep_demand();
    PERFORM fetchwork.drop_files();
    PERFORM fetchwork.give_up_bringing();
    PERFORM fetchwork.end_stays();
    PERFORM fetchwork.sweep_output();
END
$$;
