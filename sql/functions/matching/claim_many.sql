-- Gives each of many slots of a host the first waiting job of its autoclusters, in its own order of
-- preference: one row for each slot that got a run, and one with "problem" for a slot whose claim failed.
-- FETCH_WORK's handler calls it.
-- autoclusters, prios and hints are parallel and list every choice of all slots once
-- (functions/matching/claim.sql explains hints). slots: [{"slot", "exclusive", "choices": [positions in those
-- arrays, from 1], "weights": [of those choices] or one number}, ...]. choice is the position there of the
-- slot's job, slot_number the slot's position in slots, from 1. With a problem, choice and position tell
-- where the claim failed: a hint must lead past it, or every further call would fail there.
-- At the end, without slot_number, one row for each choice that a limit on starts keeps from another start
-- now, with the seconds until the limit allows one (again_s): before that no claim can get such a job.
-- The caller's picture of a queue may be old, so paused, limited and deleted queues are looked up here. A
-- black hole gets one job at most, when a probe is due, and of an owner whose jobs failed there one at a time
-- (functions/matching/turned_away.sql). After a move to another server no slot gets a job before the running
-- jobs are known (functions/maintenance/may_claim.sql).
-- The use of limits is counted once (claim_limits). After that the call adds its own runs, since no other
-- transaction can add limited ones while it holds the lock of lock_limits.
-- Slots with equal wishes get the first jobs of their first choice together (claim_alike). All others, and
-- all if that fails, claim one by one. Each slot's claim is a subtransaction: a fault of one slot or job is
-- that slot's "problem", and the others get their jobs. If the caller never gets the answer, each offer ends
-- by its own deadline.
-- Locks: those of claim, for all slots to the end of the call; it waits only for the row of limits, once, for
-- a second at most: without it no limited job is claimed.
CREATE OR REPLACE FUNCTION fetchwork.claim_many(
    host_id integer,
    autoclusters integer [],
    prios integer [],
    hints bigint [],
    slots jsonb,
    offer_s double precision DEFAULT 60,
    lease_s double precision DEFAULT 1800
)
RETURNS TABLE (
    slot_number integer,
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
    facts jsonb,
    again_s double precision
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    known record;
    slots_left integer;
    -- that a host with a limit may still claim; null: any number
    cores_left double precision;
    -- that the host was invited for; null: all
    its_queues text[];
    -- by choice
    limited boolean[];
    closed boolean[];
    cores double precision[];
    -- 0, or the position of its owner among those whose jobs failed here
    turns integer[];
    began_at bigint[] := hints;
    may_count boolean;
    must_flush boolean := false;
    -- slots with an earlier run
    busy text[];
    want record;
    -- the wishes of the slot before, and whether the arrays made of them are outdated
    listed jsonb;
    weighed jsonb;
    anew boolean;
    chosen integer[];
    open integer[];
    its_autoclusters integer[];
    its_prios integer[];
    its_hints bigint[];
    weights double precision[];
    -- the limits of choices, and what is used of them (claim_limits explains each)
    firsts integer[];
    held integer[];
    takes double precision[];
    scopes text[];
    names text[];
    maxima double precision[];
    used double precision[];
    largest double precision[];
    starts integer[];
    spent bigint[];
    its_weight double precision;
    taken record;
    -- slots that claim together, and how many of them have got a job
    alike text[];
    served integer := 0;
    got integer;
    behind bigint;
    n integer;
BEGIN
    PERFORM fetchwork.require_host(claim_many.host_id);
    IF NOT fetchwork.may_claim() THEN
        RETURN;
    END IF;
    SELECT f.slots, f.cores, f.queues
    INTO slots_left, cores_left, its_queues
    FROM fetchwork.free_slots(claim_many.host_id, jsonb_array_length(slots)) AS f;
    SELECT t.*
    INTO known
    FROM fetchwork.turned_away(claim_many.host_id) AS t;
    IF known.black_hole THEN
        slots_left := least(slots_left, 1);
    END IF;
    WITH limited_ones AS MATERIALIZED (
        SELECT l.autocluster_id
        FROM fetchwork.limited_autoclusters(autoclusters) AS l (autocluster_id)
    )
    SELECT
        array_agg(c.autocluster_id IN (SELECT l.autocluster_id FROM limited_ones AS l) ORDER BY c.choice),
        array_agg(
            a.access_point IS NOT NULL
            OR coalesce(q.paused, true)
            OR coalesce(q.name <> ALL (its_queues), false)
            OR CASE
                WHEN a.owner = ANY (known.failing) THEN a.owner = ANY (known.closed)
                ELSE NOT known.newcomers
            END
            OR coalesce(coalesce(a.request_cpus, 1) > cores_left, false)
            ORDER BY c.choice
        ),
        array_agg(coalesce(a.request_cpus, 1) ORDER BY c.choice),
        array_agg(coalesce(array_position(known.failing, a.owner), 0) ORDER BY c.choice)
    INTO limited, closed, cores, turns
    FROM unnest(autoclusters) WITH ORDINALITY AS c (autocluster_id, choice)
    LEFT JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
    LEFT JOIN fetchwork.queue AS q ON q.name = a.queue;

    busy := ARRAY(
        SELECT r.slot
        FROM fetchwork.run AS r
        WHERE r.host_id = claim_many.host_id
            AND r.slot = ANY (ARRAY(SELECT e.value ->> 'slot' FROM jsonb_array_elements(slots) AS e (value)))
    );
    FOR want IN
        SELECT
            e.value ->> 'slot' AS slot, (e.value ->> 'exclusive')::boolean AS exclusive,
            e.value -> 'choices' AS choices, e.value -> 'weights' AS weights, e.number
        FROM jsonb_array_elements(slots) WITH ORDINALITY AS e (value, number)
        ORDER BY e.number
    LOOP
        EXIT WHEN slots_left = 0;
        IF listed IS DISTINCT FROM want.choices THEN
            listed := want.choices;
            chosen := ARRAY(
                SELECT e.value::integer
                FROM jsonb_array_elements_text(listed) WITH ORDINALITY AS e (value, number)
                ORDER BY e.number
            );
            anew := true;
        END IF;
        IF anew OR weighed IS DISTINCT FROM want.weights THEN
            weighed := want.weights;
            anew := false;
            IF may_count IS NULL
                AND EXISTS (
                    SELECT FROM unnest(chosen) AS c (choice)
                    WHERE limited[c.choice] AND NOT closed[c.choice]
                )
            THEN
                may_count := fetchwork.lock_limits();
                IF may_count THEN
                    SELECT l.*
                    INTO firsts, held, takes, scopes, names, maxima, used, largest, starts, spent
                    FROM fetchwork.claim_limits(
                        autoclusters,
                        ARRAY(
                            SELECT c.closed OR NOT c.limited
                            FROM unnest(closed, limited) WITH ORDINALITY AS c (closed, limited, choice)
                            ORDER BY c.choice
                        ),
                        slots_left,
                        (
                            SELECT greatest(max((w.value #>> '{}')::double precision), 1)
                            FROM jsonb_path_query(slots, '$[*].weights[*]') AS w (value)
                        )
                    ) AS l;
                ELSE
                    closed := ARRAY(
                        SELECT c.closed OR c.limited
                        FROM unnest(closed, limited) WITH ORDINALITY AS c (closed, limited, choice)
                        ORDER BY c.choice
                    );
                END IF;
            END IF;
            SELECT
                array_agg(c.choice ORDER BY turns[c.choice], c.number),
                array_agg(c.weight ORDER BY turns[c.choice], c.number),
                array_agg(autoclusters[c.choice] ORDER BY turns[c.choice], c.number),
                array_agg(prios[c.choice] ORDER BY turns[c.choice], c.number),
                array_agg(hints[c.choice] ORDER BY turns[c.choice], c.number)
            INTO open, weights, its_autoclusters, its_prios, its_hints
            FROM (
                SELECT
                    c.choice, c.number,
                    CASE jsonb_typeof(weighed)
                        WHEN 'array' THEN (weighed ->> (c.number - 1)::integer)::double precision
                        ELSE (weighed #>> '{}')::double precision
                    END AS weight
                FROM unnest(chosen) WITH ORDINALITY AS c (choice, number)
            ) AS c
            WHERE NOT closed[c.choice]
                AND NOT EXISTS (
                    SELECT FROM generate_series(firsts[c.choice], firsts[c.choice + 1] - 1) AS k (n)
                    WHERE used[held[k.n]] + coalesce(takes[k.n], c.weight, 1) > maxima[held[k.n]]
                        -- as the negotiator: a quota below one job's weight lets one job run
                        AND NOT (takes[k.n] IS NULL AND used[held[k.n]] = 0 AND maxima[held[k.n]] > 0)
                );
        END IF;
        CONTINUE WHEN open IS NULL OR want.number <= served;
        IF want.number = 1
            AND slots_left > 1
            AND cardinality(busy) = 0
            AND turns[open[1]] = 0
            AND coalesce(cores[open[1]] * slots_left <= cores_left, true)
            AND NOT EXISTS (
                SELECT FROM generate_series(firsts[open[1]], firsts[open[1] + 1] - 1) AS k (n)
                WHERE used[held[k.n]] + slots_left * coalesce(takes[k.n], weights[1], 1) > maxima[held[k.n]]
            )
        THEN
            alike := ARRAY(
                SELECT e.value ->> 'slot'
                FROM jsonb_array_elements(slots) WITH ORDINALITY AS e (value, number)
                WHERE (e.value -> 'choices', e.value -> 'weights') = (listed, weighed)
                ORDER BY e.number
            );
            IF cardinality(alike) = slots_left THEN
                BEGIN
                    choice := open[1];
                    -- claim_alike claims for all slots before it returns a row: an error leaves no claim
                    -- behind
                    FOR
                        slot_number, run_id, token, cluster_id, proc_id, position, owner, has_policy, ad,
                        facts
                    IN
                        SELECT c.*
                        FROM fetchwork.claim_alike(
                            claim_many.host_id, alike, its_autoclusters[1], its_prios[1], its_hints[1],
                            weights[1], offer_s, lease_s
                        ) AS c
                    LOOP
                        RETURN NEXT;
                        served := slot_number;
                        its_hints[1] := position;
                    END LOOP;
                    hints[choice] := its_hints[1];
                    its_weight := least(greatest(coalesce(weights[1], 1), 1e-6), 1e9);
                    FOR n IN coalesce(firsts[choice], 1) .. coalesce(firsts[choice + 1] - 1, 0) LOOP
                        used[held[n]] := used[held[n]] + served * coalesce(takes[n], its_weight);
                        anew := true;
                    END LOOP;
                    slots_left := slots_left - served;
                    cores_left := cores_left - served * cores[choice];
                EXCEPTION
                    WHEN others THEN
                        -- the slots find out one by one which job is at fault
                        NULL;
                END;
                CONTINUE WHEN served > 0;
            END IF;
        END IF;

        BEGIN
            SELECT c.*
            INTO taken
            FROM fetchwork.claim(
                claim_many.host_id, want.slot,
                its_autoclusters, its_prios, its_hints,
                offer_s => claim_many.offer_s,
                lease_s => claim_many.lease_s,
                exclusive => want.exclusive AND want.slot = ANY (busy),
                weights => weights
            ) AS c;
            must_flush := must_flush OR current_setting('synchronous_commit') = 'on';
        EXCEPTION
            WHEN others THEN
                -- the next slots begin behind the job that this claim was about to get
                choice := NULL;
                behind := NULL;
                FOREACH n IN ARRAY open LOOP
                    SELECT w.position
                    INTO behind
                    FROM fetchwork.waiting AS w
                    WHERE w.autocluster_id = autoclusters[n]
                        AND w.job_prio = prios[n]
                        AND w.position > hints[n]
                    ORDER BY w.position
                    LIMIT 1;
                    IF FOUND THEN
                        hints[n] := behind;
                        anew := true;
                        choice := n;
                        EXIT;
                    END IF;
                END LOOP;
                RETURN QUERY
                SELECT
                    want.number::integer, choice, sqlerrm, NULL::bigint, NULL::uuid, NULL::integer,
                    NULL::integer, behind, NULL::text, NULL::boolean, NULL::jsonb, NULL::jsonb,
                    NULL::double precision;
                CONTINUE;
        END;

        got := coalesce(taken.choice, cardinality(open) + 1);
        FOR n IN 1 .. least(got - 1, cardinality(open)) LOOP
            -- for this call: its snapshots see no more of it
            closed[open[n]] := true;
            anew := true;
            -- the claim itself knows this only without a hint
            IF began_at[open[n]] = 0 AND hints[open[n]] > 0 THEN
                PERFORM fetchwork.end_demand(autoclusters[open[n]], prios[open[n]]);
            END IF;
        END LOOP;
        CONTINUE WHEN taken.run_id IS NULL;
        slots_left := slots_left - 1;
        slot_number := want.number;
        choice := open[got];
        hints[choice] := greatest(hints[choice], taken.position);
        its_hints[got] := hints[choice];
        its_weight := least(greatest(coalesce(weights[got], 1), 1e-6), 1e9);
        FOR n IN coalesce(firsts[choice], 1) .. coalesce(firsts[choice + 1] - 1, 0) LOOP
            used[held[n]] := used[held[n]] + coalesce(takes[n], its_weight);
            anew := anew OR used[held[n]] + coalesce(
                largest[held[n]], (SELECT max(coalesce(w.weight, 1)) FROM unnest(weights) AS w (weight))
            ) > maxima[held[n]];
        END LOOP;
        IF cores_left IS NOT NULL THEN
            cores_left := cores_left - cores[choice];
            closed := ARRAY(
                SELECT c.closed OR c.need > cores_left
                FROM unnest(closed, cores) WITH ORDINALITY AS c (closed, need, choice)
                ORDER BY c.choice
            );
            anew := true;
        END IF;
        IF turns[choice] > 0 THEN
            closed := ARRAY(
                SELECT c.closed OR c.turn = turns[choice]
                FROM unnest(closed, turns) WITH ORDINALITY AS c (closed, turn, number)
                ORDER BY c.number
            );
            anew := true;
        END IF;
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
    END LOOP;
    -- limits on starts
    IF EXISTS (
        SELECT FROM unnest(starts, used) AS l (starts, used)
        WHERE l.starts IS NOT NULL AND l.used > 0
    ) THEN
        PERFORM fetchwork.spend_starts(scopes, names, starts, spent, used);
    END IF;
    IF NOT may_count OR EXISTS (
        SELECT FROM unnest(starts, used, maxima) AS l (starts, used, maximum)
        WHERE l.starts IS NOT NULL AND l.used >= l.maximum
    ) THEN
        RETURN QUERY
        SELECT
            NULL::integer, c.choice::integer, NULL::text, NULL::bigint, NULL::uuid, NULL::integer,
            NULL::integer, NULL::bigint, NULL::text, NULL::boolean, NULL::jsonb, NULL::jsonb,
            extract(epoch FROM max(l.free_at) - clock_timestamp())::double precision
        FROM fetchwork.start_limits_of(autoclusters) AS l
        JOIN unnest(autoclusters) WITH ORDINALITY AS c (autocluster_id, choice)
            ON c.autocluster_id = l.autocluster_id
        GROUP BY c.choice
        HAVING max(l.free_at) > clock_timestamp()
        ORDER BY c.choice;
    END IF;
    IF must_flush THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
