-- The fence for runs that nothing hinders: starts, as start(), each run that is live, has this token, has not
-- started and is not to end. Returns their positions in the arrays. start() must do the others and those
-- whose rows another transaction holds: it tells the reason, or waits. accepted_s: seconds since REPLY_FETCH
-- said accept, if the agent knows it.
-- Events: EXECUTE (001). Locks: the jobs and the runs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.start_runs(
    run_ids bigint [],
    tokens uuid [],
    starters text [],
    slots text [],
    accepted_s double precision []
)
RETURNS integer []
LANGUAGE plpgsql
AS $$
DECLARE
    started_now integer[];
    clusters integer[];
    procs integer[];
BEGIN
    WITH ready AS (
        SELECT
            a.n, a.starter, coalesce(a.slot, r.slot) AS slot, r.run_id, r.cluster_id, r.proc_id,
            clock_timestamp() AS at, h.name AS host,
            clock_timestamp() - make_interval(secs => greatest(a.accepted_s, 0)) AS accepted_at,
            coalesce(fetchwork.provisioned(s), '{}') AS resources
        FROM unnest(run_ids, tokens, starters, slots, accepted_s)
            WITH ORDINALITY AS a (run_id, token, starter, slot, accepted_s, n)
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        JOIN fetchwork.job AS j ON j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id
        LEFT JOIN fetchwork.host AS h ON h.host_id = r.host_id
        LEFT JOIN fetchwork.slot AS s ON s.host_id = r.host_id AND s.name = coalesce(a.slot, r.slot)
        WHERE fetchwork.proves(a.token, r.token, r.host_id)
            AND r.state <> 'running'
            AND r.end_requested IS NULL
        FOR UPDATE OF j, r SKIP LOCKED
    ),
    started AS (
        UPDATE fetchwork.run AS r
        SET state = 'running',
            job_status = 2,
            started_at = s.at,
            contact_at = s.at,
            starter = s.starter,
            -- REPLY_FETCH may not have been reported yet
            accepted_at = coalesce(r.accepted_at, greatest(s.accepted_at, r.claimed_at)),
            slot = s.slot,
            deadline = s.at + r.lease
        FROM ready AS s
        WHERE r.run_id = s.run_id
        RETURNING s.*, r.claimed_at
    ),
    running AS (
        UPDATE fetchwork.job AS j
        SET job_status = 2,
            status_at = s.at,
            run_id = s.run_id,
            num_starts = j.num_starts + 1,
            first_start_at = coalesce(j.first_start_at, s.at),
            last_start_at = s.at,
            facts = j.facts || fetchwork.start_facts(s.claimed_at, s.resources)
        FROM started AS s
        WHERE j.cluster_id = s.cluster_id AND j.proc_id = s.proc_id
    ),
    told AS (
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        SELECT
            1, s.cluster_id, s.proc_id, s.run_id,
            jsonb_strip_nulls(jsonb_build_object(
                'ExecuteHost', s.host,
                'SlotName', s.slot,
                'ExecuteProps', nullif(s.resources, '{}')
            ))
        FROM started AS s
    )
    SELECT array_agg(s.n), array_agg(s.cluster_id), array_agg(s.proc_id)
    INTO started_now, clusters, procs
    FROM started AS s;
    PERFORM fetchwork.materialize_after(clusters, procs, false);
    RETURN coalesce(started_now, '{}');
END
$$;
