-- The attributes of an offer's job ad that describe the job's life. procs: the number of jobs of its cluster.
-- FetchWorkNumLost is for the agent: a job that has it takes no part in a chain.
CREATE OR REPLACE FUNCTION fetchwork.offered_facts(its fetchwork.job, procs integer)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_build_object(
    'QDate', extract(epoch FROM (its).q_date)::bigint,
    'JobPrio', (its).job_prio,
    'GlobalJobId', fetchwork.global_job_id((its).cluster_id, (its).proc_id, (its).q_date),
    'NumJobStarts', (its).num_starts,
    'NumJobCompletions', (its).num_completions,
    'TotalSubmitProcs', procs
) || CASE
    WHEN (its).num_lost > 0 THEN jsonb_build_object('FetchWorkNumLost', (its).num_lost)
    ELSE '{}'
END;
