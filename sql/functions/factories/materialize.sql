-- Makes the next jobs of a late cluster, as many as its limits allow, and 1000 at most; the caller may call
-- it again. Returns how many. Removes the factory when all its jobs were made, or it was removed, and none is
-- left in the queue.
-- max_materialize limits the jobs in the queue, and max_idle those that do not run, Held ones too, as in
-- HTCondor. So do max_jobs_per_submission the jobs of one cluster in the queue, and max_jobs_per_owner and
-- the ceilings of a submitter: then the jobs come later.
-- Transactions that start or end jobs call it (materialize_after), also those of other owners: it raises
-- nothing. A factory whose jobs can't be made is paused, with the reason. It does not wait: if another
-- transaction has the factory, that one makes jobs, and the leader makes the rest (materialize_due).
-- Events: those of the jobs, CLUSTER_REMOVE (036), FACTORY_PAUSED (037).
-- Locks: the row of the factory; skips a locked one.
CREATE OR REPLACE FUNCTION fetchwork.materialize(cluster integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    maker fetchwork.factory;
    shared jsonb;
    here integer;
    idle integer;
    lowest integer;
    most integer;
    available integer;
    number integer;
    made integer := 0;
    problem text;
BEGIN
    SELECT f.*
    INTO maker
    FROM fetchwork.factory AS f
    WHERE f.cluster_id = cluster
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR maker.paused IN (-1, 1) THEN
        RETURN 0;
    END IF;
    -- as many as are in the table by now: the lock came first
    SELECT count(*), count(*) FILTER (WHERE j.job_status IN (1, 5)), min(j.proc_id)
    INTO here, idle, lowest
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id >= maker.low_proc;
    maker.low_proc := coalesce(lowest, maker.next_proc);
    IF here = 0 AND (maker.paused = 3 OR maker.next_proc = maker.jobs) THEN
        DELETE FROM fetchwork.factory AS f
        WHERE f.cluster_id = cluster;
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        VALUES (36, cluster, -1, jsonb_build_object(
            'NextProcId', maker.next_proc,
            'NextRow', CASE
                -- as in HTCondor: there is no next item
                WHEN maker.next_proc < maker.jobs THEN maker.next_proc / maker.step
                WHEN maker.variables > 0 THEN -1
                ELSE 0
            END,
            'Completion', CASE WHEN maker.next_proc = maker.jobs THEN 1 ELSE 0 END
        ));
        RETURN 0;
    END IF;
    most := least(
        coalesce(maker.max_materialize, 2147483647), fetchwork.setting_value('max_jobs_per_submission')
    );
    available := CASE
        WHEN maker.paused = 3 THEN maker.next_proc
        WHEN maker.variables = 0 THEN maker.jobs
        ELSE least(maker.jobs, maker.rows::bigint * maker.step)
    END;
    number := least(
        most - here,
        coalesce(maker.max_idle, 2147483647) - idle,
        available - maker.next_proc,
        -- of a few megabytes
        least(1000, greatest(1, 4000000 / greatest(maker.part_bytes, 1)))
    );
    IF number > 0 AND (
        SELECT q.draining
        FROM fetchwork.cluster AS c
        JOIN fetchwork.queue AS q ON q.name = coalesce(c.ad ->> 'FetchWorkQueue', 'default')
        WHERE c.cluster_id = cluster
    ) IS NOT false THEN
        number := 0;
    END IF;
    IF number > 0 THEN
        SELECT c.ad
        INTO shared
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = cluster;
        -- an owner who has as many jobs as are allowed gets one, then two, ...
        IF maker.is_full THEN
            number := 1;
        END IF;
        LOOP
            BEGIN
                PERFORM fetchwork.add_jobs(
                    cluster, shared, maker.next_proc, fetchwork.factory_parts(maker, number), maker.on_hold,
                    NULL
                );
                maker.next_proc := maker.next_proc + number;
                made := made + number;
                here := here + number;
                idle := idle + number;
                EXIT WHEN NOT maker.is_full;
                number := least(
                    2 * number, 1000 - made, available - maker.next_proc, most - here,
                    coalesce(maker.max_idle, 2147483647) - idle
                );
                IF number <= 0 THEN
                    maker.is_full := false;
                    EXIT;
                END IF;
            EXCEPTION
                WHEN SQLSTATE 'FWDEN' THEN
                    EXIT WHEN maker.is_full;
                    maker.is_full := true;
                    EXIT WHEN number = 1;
                    number := 1;
                WHEN others THEN
                    problem := sqlerrm;
                    maker.paused := -1;
                    EXIT;
            END;
        END LOOP;
    END IF;
    IF problem IS NOT NULL THEN
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
        VALUES (37, cluster, -1, jsonb_build_object('Reason', problem, 'PauseCode', -1));
    END IF;
    UPDATE fetchwork.factory AS f
    SET paused = CASE WHEN maker.paused = 0 AND maker.next_proc = maker.jobs THEN 2 ELSE maker.paused END,
        reason = problem,
        next_proc = maker.next_proc,
        low_proc = maker.low_proc,
        is_full = maker.is_full,
        start_mark = CASE
            WHEN maker.next_proc >= available OR most <= here OR maker.is_full THEN NULL
            WHEN maker.max_idle < 20 THEN 0
            ELSE maker.next_proc - (0.8 * maker.max_idle)::integer
        END,
        -- at the end each job may be the last
        end_mark = CASE
            WHEN maker.next_proc >= available THEN 0
            WHEN most > here OR maker.is_full THEN NULL
            WHEN most < 20 THEN 0
            ELSE maker.next_proc - (0.8 * most)::integer
        END
    WHERE f.cluster_id = cluster;
    RETURN made;
END
$$;
