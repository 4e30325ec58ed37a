-- Does what people ask of jobs, for the functions of these names: 'hold', 'release', 'remove', 'vacate',
-- 'suspend', 'continue'. Returns of how many. Errors: FWNOT, FWDEN, FWINV. Locks: the jobs (selected_jobs).
CREATE OR REPLACE FUNCTION fetchwork.act_on_jobs(
    action text,
    jobs text [],
    owner text,
    reason text,
    code integer DEFAULT NULL,
    subcode integer DEFAULT NULL,
    gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    role name := fetchwork.invoker();
    factories integer[];
    clusters integer[];
    procs integer[];
    owners text[];
    why text := coalesce(
        act_on_jobs.reason,
        format(
            'via fetchwork %s (by %s)',
            CASE action WHEN 'remove' THEN 'rm' ELSE action END,
            -- the person behind an access point
            coalesce(fetchwork.acting_for(role), role)
        )
    );
BEGIN
    IF action IN ('hold', 'release', 'remove') THEN
        factories := fetchwork.selected_factories(jobs, act_on_jobs.owner, role);
    END IF;
    IF factories <> '{}' THEN
        PERFORM fetchwork.act_on_factories(action, factories, why, act_on_jobs.code);
    END IF;
    SELECT array_agg(s.cluster_id), array_agg(s.proc_id), array_agg(s.owner)
    INTO clusters, procs, owners
    FROM fetchwork.selected_jobs(jobs, act_on_jobs.owner, role, gone_ok) AS s
    WHERE CASE action
        WHEN 'hold' THEN s.job_status NOT IN (3, 4, 5)
        WHEN 'release' THEN s.job_status = 5
        WHEN 'remove' THEN s.job_status <> 3
        ELSE s.job_status IN (2, 7)
    END;
    IF clusters IS NULL THEN
        PERFORM fetchwork.materialize(f.cluster_id)
        FROM unnest(factories) AS f (cluster_id);
        RETURN coalesce(cardinality(factories), 0);
    END IF;
    PERFORM fetchwork.note_job_action(action, clusters, procs, owners, act_on_jobs.reason);
    CASE action
        WHEN 'hold' THEN
            PERFORM fetchwork.hold_jobs(clusters, procs, why, act_on_jobs.code, act_on_jobs.subcode);
        WHEN 'release' THEN
            PERFORM fetchwork.release_jobs(clusters, procs, why);
            PERFORM fetchwork.check_ceilings(
                array_agg(g.autocluster_id), array_agg(0::bigint), array_agg(g.idle)
            )
            FROM (
                SELECT j.autocluster_id, count(*) AS idle
                FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
                CROSS JOIN LATERAL fetchwork.job_of(k.cluster_id, k.proc_id) AS j
                WHERE j.job_status = 1
                GROUP BY j.autocluster_id
            ) AS g;
        WHEN 'remove' THEN
            PERFORM fetchwork.remove_jobs(clusters, procs, why);
        WHEN 'vacate' THEN
            RETURN fetchwork.end_live_runs(clusters, procs, 'vacate', why);
        WHEN 'suspend', 'continue' THEN
            RETURN fetchwork.suspend_runs(clusters, procs, action, act_on_jobs.gone_ok);
    END CASE;
    PERFORM fetchwork.materialize(f.cluster_id)
    FROM unnest(factories) AS f (cluster_id);
    RETURN cardinality(clusters);
END
$$;
