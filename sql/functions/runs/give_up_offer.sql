-- An accepted offer that no starter followed: HTCondor says nothing when the account does not exist, the universe is none it runs, or a hook is missing.
-- The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.give_up_offer(its fetchwork.run)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF its.end_requested IS NOT NULL THEN
        PERFORM fetchwork.close_run(its, 'withdrawn', its.end_reason);
        PERFORM fetchwork.back_to_idle(its, its.end_reason);
    ELSIF its.state = 'accepted' THEN
        PERFORM fetchwork.could_not_start(its,
            (SELECT format('accepted by the startd, but no starter reported; does the account %s exist there, does its universe %s run there? see StarterLog',
                j.owner, coalesce(fetchwork.whole_ad(j) ->> 'JobUniverse', '5'))
            FROM fetchwork.job AS j
            WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id));
    ELSE
        PERFORM fetchwork.close_run(its, 'expired', 'the startd did not answer the offer');
        PERFORM fetchwork.back_to_idle(its, NULL);
    END IF;
END
$$;
