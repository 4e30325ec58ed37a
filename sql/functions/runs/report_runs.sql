-- Processes the reports of one agent's hooks that arrived within a few milliseconds: runs that the startd
-- accepted, that start, live, and end, each kind as parallel arrays. One transaction waits for the disk once
-- for all.
-- Does the common cases without waiting for a lock (accept_runs, start_runs, renew_runs, finish_runs), and
-- returns their positions in the arrays. For each other run the agent calls accept, start, heartbeat or
-- finish, which wait, refuse with a reason, and recognize a repeated report. So a run that is over, locked or
-- forged does not affect the runs reported with it.
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
