-- The Owner of the job of a run, live or ended; NULL if there is no such run or the token is another's. An
-- agent calls this before it trusts a hook: only the owner's account may report the run.
CREATE OR REPLACE FUNCTION fetchwork.run_owner(run_id bigint, token uuid)
RETURNS text
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT j.owner
    FROM (
        SELECT r.cluster_id, r.proc_id
        FROM fetchwork.run AS r
        WHERE r.run_id = run_owner.run_id AND fetchwork.proves(run_owner.token, r.token, r.host_id)
        UNION ALL
        SELECT h.cluster_id, h.proc_id
        FROM fetchwork.run_history AS h
        WHERE h.run_id = run_owner.run_id AND fetchwork.proves(run_owner.token, h.token, h.host_id)
    ) AS known
    LEFT JOIN fetchwork.known_job AS j ON j.cluster_id = known.cluster_id AND j.proc_id = known.proc_id
    LIMIT 1;
END;
