-- Ends an offer that led to no start. After an accept, no starter followed: HTCondor reports nothing if the
-- account does not exist, if it does not run that universe, or if a hook is missing. problem: the cause in
-- the starter's log, if any. The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.give_up_offer(live fetchwork.run, problem text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF live.end_requested IS NOT NULL THEN
        PERFORM fetchwork.close_run(live, 'withdrawn', live.end_reason);
        PERFORM fetchwork.back_to_idle(live, live.end_reason);
    ELSIF live.state = 'accepted' THEN
        PERFORM fetchwork.could_not_start(
            live,
            coalesce(
                problem,
                'accepted by the startd, but no starter reported: see StarterLog of the slot on the host'
            )
        );
    ELSE
        PERFORM fetchwork.close_run(live, 'expired', 'the startd did not answer the offer');
        PERFORM fetchwork.back_to_idle(live, NULL);
    END IF;
END
$$;
