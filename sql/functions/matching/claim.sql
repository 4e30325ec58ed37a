-- Gives a slot the first waiting job of the first of these autoclusters that has one; no row if none has.
-- choice is the index of that autocluster in the list, from 1.
-- claim_many calls it for each slot, with autoclusters that no limit keeps from one more run. autoclusters,
-- prios and hints are parallel arrays in the order of preference: hints[i] is the position of the last job
-- that the caller got from autoclusters[i] at prios[i], or 0. The returned position is the next hint.
-- Speed: a claim deletes one row of the narrow table "waiting" and inserts one into "run"; it touches no row
-- of "job" and no counter. A statement that chose among many autoclusters would walk, at each claim, the dead
-- index entries at the head of each of them, as long as an old snapshot keeps vacuum from them; so the caller
-- orders the autoclusters and remembers where their live rows begin. SKIP LOCKED skips another claimer's row
-- instead of waiting. A row that commits late at a position below the hint is found when the caller forgets
-- its hints, every few seconds.
-- A claim need not survive a crash of the server: the fence (functions/runs/start.sql) refuses the lost run,
-- and the job waits again. So it does not wait for the disk, unless it ended an old run: a reader of that
-- event must find it again after a crash.
-- The slot asks because it is free, so an earlier run of it is over (detector 1 of three, see
-- functions/maintenance/reap.sql). Not so for a partitionable slot, for which exclusive is false: it asks on
-- while starters for its claims come up. weights, parallel to autoclusters, overrides weight if a job's
-- requests decide its cost.
-- A claim that leaves nothing behind the job it took notifies the agents that may be about to come for it
-- (tell_demand), which costs one more search in the index.
-- Locks: the deleted row; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.claim(
    host_id integer,
    slot text,
    autoclusters integer [],
    prios integer [],
    hints bigint [],
    weight real DEFAULT 1,
    offer_s double precision DEFAULT 60,
    lease_s double precision DEFAULT 1800,
    exclusive boolean DEFAULT true,
    weights double precision [] DEFAULT NULL
)
RETURNS TABLE (
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    autocluster_id integer,
    "position" bigint,
    owner text,
    has_policy boolean,
    ad jsonb,
    choice integer,
    facts jsonb
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    i integer;
    taken record;
BEGIN
    -- for many slots the first claim does it
    IF current_setting('synchronous_commit') <> 'off' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    -- slot_is_free decides which of these runs are over
    IF exclusive AND EXISTS (
        SELECT FROM fetchwork.run AS r
        WHERE r.host_id = claim.host_id
            AND r.slot = claim.slot
            AND r.transferring IS DISTINCT FROM 'output'
    ) THEN
        IF fetchwork.slot_is_free(claim.host_id, claim.slot) > 0 THEN
            -- it may have written an event, which must be on disk before it is read
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
    END IF;

    FOR i IN 1 .. coalesce(cardinality(autoclusters), 0) LOOP
        WITH first AS (
            DELETE FROM fetchwork.waiting AS w
            WHERE w.ctid = (
                SELECT h.ctid
                FROM fetchwork.waiting AS h
                WHERE h.autocluster_id = autoclusters[i] AND h.job_prio = prios[i] AND h.position > hints[i]
                ORDER BY h.position
                LIMIT 1
                FOR UPDATE SKIP LOCKED
            )
            RETURNING w.cluster_id, w.proc_id, w.position
        ),
        made AS (
            INSERT INTO fetchwork.run (
                cluster_id, proc_id, autocluster_id, host_id, slot, weight, lease, deadline
            )
            SELECT
                f.cluster_id, f.proc_id, autoclusters[i], claim.host_id, claim.slot,
                -- a cast to real of a too small or too large number would end the claim
                CASE
                    WHEN weights[i] IS NULL THEN claim.weight
                    ELSE least(greatest(weights[i], 1e-6), 1e9)
                END,
                make_interval(secs => lease_s),
                clock_timestamp() + make_interval(secs => offer_s)
            FROM first AS f
            RETURNING run.run_id, run.token
        )
        SELECT
            f.cluster_id, f.proc_id, f.position, m.run_id, m.token,
            EXISTS (
                SELECT FROM fetchwork.waiting AS w
                WHERE w.autocluster_id = autoclusters[i]
                    AND w.job_prio = prios[i]
                    AND w.position > f.position
            ) AS more
        INTO taken
        FROM first AS f
        CROSS JOIN made AS m;
        IF NOT FOUND THEN
            -- only a claim without a hint knows that nothing is left
            IF hints[i] = 0 THEN
                PERFORM fetchwork.end_demand(autoclusters[i], prios[i]);
            END IF;
            CONTINUE;
        END IF;
        run_id := taken.run_id;
        token := taken.token;
        cluster_id := taken.cluster_id;
        proc_id := taken.proc_id;
        autocluster_id := autoclusters[i];
        position := taken.position;
        choice := i;
        IF NOT taken.more THEN
            PERFORM fetchwork.tell_demand('~', autoclusters[i], prios[i]);
        END IF;
        -- by a new snapshot, which sees an edit that held the deleted row until now
        SELECT
            j.owner, j.has_policy, c.ad || j.ad,
            fetchwork.offered_facts(j, c.procs)
        INTO claim.owner, claim.has_policy, claim.ad, claim.facts
        FROM fetchwork.job AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        WHERE j.cluster_id = taken.cluster_id AND j.proc_id = taken.proc_id;
        RETURN NEXT;
        RETURN;
    END LOOP;
END
$$;
