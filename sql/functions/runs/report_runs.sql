-- What the hooks of one agent told it in the same few milliseconds: runs that the startd accepted, that
-- start, live, and end, each as parallel arrays. One call, one transaction and one wait for the disk
-- for all.
--
-- Does what is common and needs no lock that another transaction holds (accept_runs, start_runs, renew_runs,
-- finish_runs), and returns the numbers of those in the arrays. Of the others nothing is done here: the agent
-- calls accept, start, heartbeat or finish for each, which wait, refuse with the reason, and know a repeated
-- report. So one run that is over, locked or forged changes nothing for those that came with it.
CREATE OR REPLACE FUNCTION fetchwork.report_runs(
    accept_ids bigint [],
    accept_tokens uuid [],
    accepted_s double precision [],
    start_ids bigint [],
    start_tokens uuid [],
    starters text [],
    slots text [],
    started_accepted_s double precision [],
    update_ids bigint [],
    update_tokens uuid [],
    updates jsonb [],
    exit_ids bigint [],
    exit_tokens uuid [],
    exits jsonb []
)
RETURNS TABLE (accepted integer [], started integer [], renewed integer [], finished integer [])
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF cardinality(accept_ids) > 0 THEN
        accepted := fetchwork.accept_runs(accept_ids, accept_tokens, accepted_s);
    END IF;
    IF cardinality(start_ids) > 0 THEN
        started := fetchwork.start_runs(start_ids, start_tokens, starters, slots, started_accepted_s);
    END IF;
    IF cardinality(update_ids) > 0 THEN
        renewed := fetchwork.renew_runs(update_ids, update_tokens, updates);
    END IF;
    IF cardinality(exit_ids) > 0 THEN
        finished := fetchwork.finish_runs(exit_ids, exit_tokens, exits);
    END IF;
    RETURN NEXT;
END
$$;
