-- Gives each of these slots of a host a waiting job of one autocluster at one priority, and starts it: does
-- in one statement what claim_alike and start_runs do, and what they say of hints, waiting and the job's row
-- holds here, but that the job's row is locked, so that its latest version is read. starters and chains are
-- parallel to slots; next_runs explains them, compared and same. fit tells in each row whether all the jobs
-- have the attributes of same, and none was lost; if not, the caller must undo the call before it returns one
-- of the rows. more tells in each row whether jobs are left behind the last one, or there were too few; if
-- not, the caller must notify the agents (tell_demand).
-- Events: EXECUTE (001). Locks: the deleted rows and the jobs; skips locked ones, so that it never waits for
-- an act on a job, which locks the job first and then the row here.
CREATE OR REPLACE FUNCTION fetchwork.next_alike(
    host_id integer,
    slots text [],
    starters text [],
    chains bigint [],
    autocluster integer,
    prio integer,
    hint bigint,
    weight double precision,
    lease_s double precision,
    compared text [],
    same jsonb
)
RETURNS TABLE (
    n integer,
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    "position" bigint,
    owner text,
    has_policy boolean,
    ad jsonb,
    facts jsonb,
    fit boolean,
    more boolean
)
LANGUAGE plpgsql
-- a plan for the number of slots would be made at each call, for half of the call's time
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        SELECT
            w.ctid AS tid, w.position, j.cluster_id, j.proc_id, j.owner, j.has_policy, c.ad || j.ad AS ad,
            fetchwork.offered_facts(j, c.procs) AS facts
        FROM fetchwork.waiting AS w
        JOIN fetchwork.job AS j ON j.cluster_id = w.cluster_id AND j.proc_id = w.proc_id
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        WHERE w.autocluster_id = autocluster AND w.job_prio = prio AND w.position > hint
        ORDER BY w.position
        LIMIT cardinality(slots)
        FOR UPDATE OF w, j SKIP LOCKED
    ),
    taken AS (
        DELETE FROM fetchwork.waiting AS w
        WHERE w.ctid = ANY (ARRAY(SELECT p.tid FROM picked AS p))
        RETURNING w.position
    ),
    numbered AS MATERIALIZED (
        SELECT
            p.*, row_number() OVER (ORDER BY p.position) AS n, nextval('fetchwork.run_id') AS run_id,
            gen_random_uuid() AS token
        FROM taken AS t
        JOIN picked AS p ON p.position = t.position
    ),
    started AS MATERIALIZED (
        SELECT
            f.n, f.run_id, f.cluster_id, f.proc_id, h.name AS host,
            coalesce(fetchwork.provisioned(s), '{}') AS resources
        FROM numbered AS f
        LEFT JOIN fetchwork.host AS h ON h.host_id = next_alike.host_id
        LEFT JOIN fetchwork.slot AS s ON s.host_id = next_alike.host_id AND s.name = slots[f.n]
    ),
    made AS (
        INSERT INTO fetchwork.run (
            run_id, token, cluster_id, proc_id, autocluster_id, host_id, slot, weight, lease, deadline,
            state, job_status, accepted_at, started_at, contact_at, starter, chain
        )
        SELECT
            f.run_id, f.token, f.cluster_id, f.proc_id, autocluster, next_alike.host_id, slots[f.n],
            -- as in claim
            CASE WHEN weight IS NULL THEN 1 ELSE least(greatest(weight, 1e-6), 1e9) END,
            make_interval(secs => lease_s), at + make_interval(secs => lease_s),
            'running', 2, at, at, at, starters[f.n], chains[f.n]
        FROM numbered AS f
    ),
    running AS (
        UPDATE fetchwork.job AS j
        SET job_status = 2,
            status_at = at,
            run_id = s.run_id,
            num_starts = j.num_starts + 1,
            first_start_at = coalesce(j.first_start_at, at),
            last_start_at = at,
            facts = j.facts || fetchwork.start_facts(at, s.resources)
        FROM started AS s
        WHERE j.cluster_id = s.cluster_id AND j.proc_id = s.proc_id
    ),
    told AS (
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        SELECT
            1, s.cluster_id, s.proc_id, s.run_id,
            jsonb_strip_nulls(jsonb_build_object(
                'ExecuteHost', s.host,
                'SlotName', slots[s.n],
                'ExecuteProps', nullif(s.resources, '{}')
            ))
        FROM started AS s
    )
    SELECT
        f.n::integer, f.run_id, f.token, f.cluster_id, f.proc_id, f.position, f.owner, f.has_policy, f.ad,
        f.facts,
        bool_and(
            fetchwork.part_of(f.ad, compared) = same AND NOT f.facts ? 'FetchWorkNumLost'
        ) OVER (),
        l.more
    FROM numbered AS f
    CROSS JOIN (
        -- if there were fewer jobs than slots, the next slot's claim finds that nothing is left
        SELECT
            count(*) < cardinality(slots) OR EXISTS (
                SELECT FROM fetchwork.waiting AS w
                WHERE w.autocluster_id = autocluster AND w.job_prio = prio AND w.position > max(g.position)
            ) AS more
        FROM numbered AS g
    ) AS l
    ORDER BY f.n;
END
$$;
