-- The live runs of a host, for an agent that comes back and checks which starters and jobs are still there.
-- Tokens are for the agent alone.
CREATE OR REPLACE FUNCTION fetchwork.host_runs(host_id integer)
RETURNS TABLE (
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    state text,
    slot text,
    owner text,
    starter text,
    chain bigint,
    job_pid integer,
    started_at timestamptz,
    job_start_date bigint,
    end_requested text,
    has_policy boolean
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_host(host_runs.host_id);
    SELECT
        r.run_id, r.token, r.cluster_id, r.proc_id, r.state::text, r.slot, j.owner, r.starter, r.chain,
        r.job_pid, r.started_at,
        fetchwork.number_of(r.usage -> 'JobStartDate')::bigint, r.end_requested, j.has_policy
    FROM fetchwork.run AS r
    JOIN fetchwork.job AS j ON j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id
    WHERE r.host_id = host_runs.host_id;
END;
