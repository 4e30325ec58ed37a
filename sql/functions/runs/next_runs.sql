-- Gives slots that run a chain their next jobs: ends the runs that the slots have reported, claims a job for
-- each slot and starts it, in one transaction, which waits for the disk once. The agent calls it for runners
-- that ask for their next job (PROTOCOL.md), with the requests of one moment together.
-- end_ids, end_tokens and reports are those of finish_runs. autoclusters, prios, hints, lease_s and slots are
-- those of claim_many; a slot has in addition "end" (the position of its reported run in end_ids; null: it
-- has reported none), "starter" (as for start_runs), "chain" (the id of the chain's first run) and "same":
-- what the next job must have in common with the first. "same" has the values of the attributes named in
-- compared (in lower case), without those that the first job lacks.
-- Returns a row for each slot with a report, "ended" telling whether it was the common end, and the run of
-- each slot that got one: it is running. A slot whose run is not ended gets no job: the agent reports that
-- end by finish, and asks again without it. A slot gets no job either if the job that it would get differs in
-- "same", or if a run of that job was lost, perhaps with its runner: that job waits again, the chain ends,
-- and the slot's fetch gets it.
-- A repeated call would take other jobs; an answer that is lost leaves runs that no runner knows, and that
-- end as any run whose job never appears.
-- Events: those of finish_runs, EXECUTE (001).
-- Locks: those of finish_runs, claim_many and start_runs; the row of limits before any claim that may be
-- undone. A claim that is undone would give that row back, but a session that waits for it waits for the end
-- of the whole transaction, and the next claim here would wait behind that session: a deadlock.
CREATE OR REPLACE FUNCTION fetchwork.next_runs(
    host_id integer,
    end_ids bigint [],
    end_tokens uuid [],
    reports jsonb [],
    autoclusters integer [],
    prios integer [],
    hints bigint [],
    slots jsonb,
    compared text [],
    lease_s double precision DEFAULT 1800
)
RETURNS TABLE (
    slot_number integer,
    ended boolean,
    choice integer,
    problem text,
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    "position" bigint,
    owner text,
    has_policy boolean,
    ad jsonb,
    facts jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    finished integer[] := '{}';
    -- a claim alone need not survive a crash of the server; an end and a start have to
    durability text := current_setting('synchronous_commit');
    -- the slots that claim, their names, their positions in slots, and how many of them have got a job
    claiming jsonb;
    names text[];
    numbers integer[];
    served integer := 0;
    wish jsonb;
    first_choice integer;
    -- jobs that next_alike has started
    clusters integer[];
    procs integer[];
    may_count boolean := true;
    taken record;
BEGIN
    PERFORM fetchwork.require_host(next_runs.host_id);
    IF cardinality(end_ids) > 0 THEN
        finished := fetchwork.finish_runs(end_ids, end_tokens, reports);
    END IF;
    SELECT
        jsonb_agg(s.slot ORDER BY s.n),
        array_agg(s.slot ->> 'slot' ORDER BY s.n),
        coalesce(array_agg(s.n ORDER BY s.n), '{}'),
        CASE
            WHEN count(DISTINCT (s.slot -> 'choices', s.slot -> 'weights', s.slot -> 'same')) = 1
                THEN min((s.slot -> 'choices' ->> 0)::integer)
        END
    INTO claiming, names, numbers, first_choice
    FROM jsonb_array_elements(slots) WITH ORDINALITY AS s (slot, n)
    WHERE s.slot -> 'end' = 'null' OR (s.slot ->> 'end')::integer = ANY (finished);

    -- slots with equal wishes start the first jobs of their first choice together
    IF first_choice IS NOT NULL
        AND fetchwork.may_claim()
        -- turned_away turns no owner away
        AND EXISTS (
            SELECT FROM fetchwork.host AS h
            WHERE h.host_id = next_runs.host_id AND h.black_hole_since IS NULL
        )
        AND NOT EXISTS (SELECT FROM fetchwork.failing_owner AS f WHERE f.host_id = next_runs.host_id)
        AND NOT EXISTS (
            SELECT FROM fetchwork.run AS r
            WHERE r.host_id = next_runs.host_id AND r.slot = ANY (names)
        )
        AND EXISTS (
            SELECT FROM fetchwork.autocluster AS a
            JOIN fetchwork.queue AS q ON q.name = a.queue
            WHERE a.autocluster_id = autoclusters[first_choice]
                AND a.access_point IS NULL
                AND NOT q.paused
                AND fetchwork.serves_queue(q.name, free => true)
        )
        AND NOT EXISTS (
            SELECT
            FROM fetchwork.limited_autoclusters(ARRAY[autoclusters[first_choice]]) AS l (autocluster_id)
        )
    THEN
        wish := claiming -> 0;
        BEGIN
            FOR taken IN
                SELECT a.*
                FROM fetchwork.next_alike(
                    host_id,
                    names,
                    ARRAY(SELECT e.slot ->> 'starter' FROM jsonb_array_elements(claiming) AS e (slot)),
                    ARRAY(
                        SELECT (e.slot ->> 'chain')::bigint
                        FROM jsonb_array_elements(claiming) AS e (slot)
                    ),
                    autoclusters[first_choice], prios[first_choice], hints[first_choice],
                    coalesce(wish -> 'weights' ->> 0, wish ->> 'weights')::double precision,
                    lease_s, compared, wish -> 'same'
                ) AS a
            LOOP
                -- true or false of all rows: an error would undo the runs of the rows returned so far, but
                -- not the rows
                IF NOT taken.fit THEN
                    RAISE EXCEPTION 'a job does not fit the chains' USING ERRCODE = 'FWFIT';
                END IF;
                slot_number := numbers[taken.n];
                ended := true;
                choice := first_choice;
                run_id := taken.run_id;
                token := taken.token;
                cluster_id := taken.cluster_id;
                proc_id := taken.proc_id;
                position := taken.position;
                owner := taken.owner;
                has_policy := taken.has_policy;
                ad := taken.ad;
                facts := taken.facts;
                RETURN NEXT;
                served := taken.n;
                clusters := clusters || taken.cluster_id;
                procs := procs || taken.proc_id;
                hints[first_choice] := taken.position;
            END LOOP;
        EXCEPTION
            WHEN others THEN
                -- the slots find out one by one which job is at fault
                NULL;
        END;
        IF served > 0 THEN
            PERFORM fetchwork.materialize_after(clusters, procs, false);
            IF NOT taken.more THEN
                PERFORM fetchwork.tell_demand('~', autoclusters[first_choice], prios[first_choice]);
            END IF;
        END IF;
    END IF;

    IF served < cardinality(numbers)
        AND EXISTS (SELECT FROM fetchwork.limited_autoclusters(autoclusters) AS l (autocluster_id))
    THEN
        -- without it the chains end, and the slots' fetches claim
        may_count := fetchwork.lock_limits();
    END IF;
    IF served < cardinality(numbers) THEN
        -- for the same reason, the row that claims lock on a host with a limit of its own
        PERFORM fetchwork.free_slots(host_id, 0);
    END IF;
    FOR n IN 1 .. jsonb_array_length(slots) LOOP
        CONTINUE WHEN array_position(numbers, n) <= served;
        wish := slots -> (n - 1);
        slot_number := n;
        ended := n = ANY (numbers);
        choice := NULL;
        problem := NULL;
        position := NULL;
        run_id := NULL;
        IF ended AND may_count THEN
            BEGIN
                SELECT c.*
                INTO taken
                FROM fetchwork.claim_many(
                    host_id, autoclusters, prios, hints, jsonb_build_array(wish), lease_s => lease_s
                ) AS c
                WHERE c.slot_number IS NOT NULL;
                choice := taken.choice;
                problem := taken.problem;
                position := taken.position;
                -- the run is this transaction's own: only a locked job does not start
                IF taken.run_id IS NOT NULL AND (
                    fetchwork.part_of(taken.ad, compared) <> wish -> 'same'
                    OR taken.facts ? 'FetchWorkNumLost'
                    OR cardinality(fetchwork.start_runs(
                        ARRAY[taken.run_id], ARRAY[taken.token], ARRAY[wish ->> 'starter'],
                        ARRAY[wish ->> 'slot'], ARRAY[0::double precision]
                    )) = 0
                ) THEN
                    RAISE EXCEPTION 'the job does not fit the chain' USING ERRCODE = 'FWFIT';
                END IF;
                IF taken.run_id IS NOT NULL THEN
                    UPDATE fetchwork.run AS r
                    SET chain = (wish ->> 'chain')::bigint
                    WHERE r.run_id = taken.run_id;
                    run_id := taken.run_id;
                    token := taken.token;
                    cluster_id := taken.cluster_id;
                    proc_id := taken.proc_id;
                    owner := taken.owner;
                    has_policy := taken.has_policy;
                    ad := taken.ad;
                    facts := taken.facts;
                END IF;
            EXCEPTION
                WHEN SQLSTATE 'FWFIT' THEN
                    -- the claim is undone, and the slot's fetch gets the job
                    choice := NULL;
                    position := NULL;
                WHEN others THEN
                    -- as a claim that fails: this slot's problem, and the next ones begin behind the job
                    problem := sqlerrm;
                    run_id := NULL;
            END;
            IF position IS NOT NULL THEN
                hints[choice] := greatest(hints[choice], position);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('synchronous_commit', durability, true);
END
$$;
