-- Gives a slot the first job that waits in the first of these autoclusters that yields one; no row if none
-- does. "choice" is the index of that autocluster in the list, from 1.
--
-- Called by claim_many for each slot. autoclusters, prios, hints and limited are parallel arrays in the
-- order of preference: hints[i] is the position of the last job that the caller got from autoclusters[i] at
-- prios[i], 0 if it knows none. The position comes back as the next hint.
--
-- How it stays fast. A claim deletes one row of the narrow table "waiting" and inserts one into "run"; it
-- touches no row of "job" and no counter. Choosing among many autoclusters in one statement would walk, at
-- each claim, the dead index entries at the head of every one of them, without end while some old snapshot
-- keeps vacuum from them; so the caller orders the autoclusters and remembers where their live rows begin.
-- SKIP LOCKED: another claimer's row is passed over, not waited for. A row that commits late under a position
-- below the hint is found when the caller forgets its hints, as it does every few seconds.
--
-- A claim need not survive a crash of the server: the fence (functions/runs/start.sql) refuses a run that is
-- not there, and the job waits again. So it does not wait for the disk, unless it ended a run that was over:
-- who reads the event of that must find it again after a crash.
--
-- The slot asks because it is free, so a run that it had begun before is over (detector 1 of three, see
-- functions/maintenance/reap.sql). Not so a partitionable slot, which goes on asking while starters for what
-- it took come up: exclusive is false for it. weights, parallel to autoclusters, overrides weight where
-- a job's requests decide what it costs.
--
-- enable_seqscan is off here and in the other functions of a run's way: these tables are empty at one moment
-- and long at the next, and a session keeps the plan that it made when they were empty. Where a table of one
-- row has no index to go by, the penalty makes such a plan look so dear, before PostgreSQL 18, that JIT would
-- compile it for 30 ms at each call; so wherever a way is turned off JIT is, too.
--
-- A claim that leaves nothing behind the job it took says so to the agents that are about to come for it
-- (tell_demand), which costs one more look at the index.
--
-- Locks: the deleted row; the row of limits (lock_limits), where one of the autoclusters is limited.
CREATE OR REPLACE FUNCTION fetchwork.claim(
    host_id integer,
    slot text,
    autoclusters integer [],
    prios integer [],
    hints bigint [],
    limited boolean [],
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
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    i integer;
    may_count boolean;
    taken record;
BEGIN
    -- for many slots the first one says so
    IF current_setting('synchronous_commit') <> 'off' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    -- slot_is_free decides which of them are over
    IF exclusive AND EXISTS (
        SELECT FROM fetchwork.run AS r
        WHERE r.host_id = claim.host_id
            AND r.slot = claim.slot
            AND r.transferring IS DISTINCT FROM 'output'
    ) THEN
        IF fetchwork.slot_is_free(claim.host_id, claim.slot) > 0 THEN
            -- an event may have been written: it is on disk before anybody reads it
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
    END IF;

    FOR i IN 1 .. coalesce(cardinality(autoclusters), 0) LOOP
        IF limited[i] THEN
            may_count := coalesce(may_count, fetchwork.lock_limits());
            CONTINUE WHEN NOT may_count OR NOT fetchwork.limit_allows(autoclusters[i]);
        END IF;
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
                -- a cast of what is too small or large for a real would end the claim
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
            -- only a claim that looked from the start knows that nothing is left
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
        -- by a snapshot of its own: an edit that held the deleted row until now has its say
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
