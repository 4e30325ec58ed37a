-- The reasons in the database why an Idle job does not run; no row for a job that the caller may not see, or
-- that is not in the queue. waits: it may be claimed. ahead: jobs of its autocluster and priority before it,
-- 1000 at most. agents: hosts whose agent is alive. policy_rests: it has a policy, which no process evaluates
-- (policies_rest). Other processes evaluate the slots' side, where ClassAds
-- are (fetchwork/explain).
CREATE OR REPLACE FUNCTION fetchwork.prospects(cluster integer, proc integer)
RETURNS TABLE (
    autocluster_id integer,
    job_prio integer,
    queue text,
    draining boolean,
    submitter text,
    waits boolean,
    ahead bigint,
    blocked text,
    not_before timestamptz,
    run_state text,
    run_slot text,
    agents bigint,
    starts_at timestamptz,
    policy_rests boolean
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        j.autocluster_id, j.job_prio, a.queue, q.draining, a.submitter, w.position IS NOT NULL,
        (
            SELECT count(*)
            FROM (
                SELECT FROM fetchwork.waiting AS o
                WHERE o.autocluster_id = j.autocluster_id
                    AND o.job_prio = j.job_prio
                    AND o.position < w.position
                LIMIT 1000
            ) AS before
        ),
        fetchwork.blocked_by(j.autocluster_id),
        j.not_before, r.state::text, r.slot,
        (
            SELECT count(*)
            FROM fetchwork.host AS h
            WHERE h.agent_version IS NOT NULL AND h.lease_until >= now()
        ),
        -- if it waits for its time, and not for a next try
        (
            SELECT to_timestamp(fetchwork.number_of((c.ad || j.ad) -> 'DeferralTime'))
            FROM fetchwork.cluster AS c
            WHERE c.cluster_id = j.cluster_id AND j.not_before = (fetchwork.deferral(c.ad || j.ad)).offered_at
        ),
        j.has_policy AND j.job_status IN (1, 4, 5, 6) AND fetchwork.policies_rest()
    FROM fetchwork.job AS j
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = j.autocluster_id
    JOIN fetchwork.queue AS q ON q.name = a.queue
    LEFT JOIN fetchwork.waiting AS w
        ON w.autocluster_id = j.autocluster_id AND w.job_prio = j.job_prio AND w.position = j.position
    LEFT JOIN fetchwork.run AS r ON r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id
    WHERE j.cluster_id = prospects.cluster AND j.proc_id = prospects.proc
        AND (
            fetchwork.sees_all(fetchwork.invoker())
            OR j.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        );
END;
