-- The output of a running job: tells the run's host that its output is watched for the next 15 s, and returns
-- the stored output behind a position of each stream, at most 128 KiB in all. A watcher calls it about once a
-- second, with the run and the positions of its last answer.
-- cluster, proc: a job that the caller may see. run_id: the run that was watched before; if it has ended
-- meanwhile, its last output can still be read. stdout_at, stderr_at: the position behind the last byte that
-- the caller has, NULL at the beginning.
-- Returns a row for each chunk (stream 1 is stdout, 2 stderr; at: its position in the file), or one row
-- without a stream: running tells whether more may come, problem why none comes. No row: the job does not
-- run, and no output is kept.
-- Errors: FWNOT (no such job, or the caller may not see it), FWDEN (20 runs of its owner are watched
-- already).
CREATE OR REPLACE FUNCTION fetchwork.watch_output(
    cluster integer,
    proc integer,
    run_id bigint DEFAULT NULL,
    stdout_at bigint DEFAULT NULL,
    stderr_at bigint DEFAULT NULL
)
RETURNS TABLE (run bigint, running boolean, problem text, stream integer, at bigint, content bytea)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    watched fetchwork.output_watch;
    live fetchwork.run;
    its_owner text;
    found_any boolean := false;
    more boolean;
BEGIN
    SELECT j.owner
    INTO its_owner
    FROM fetchwork.job AS j
    -- an ended job that leave_in_queue keeps writes no more
    WHERE j.cluster_id = cluster AND j.proc_id = proc AND j.job_status <> 4;
    SELECT w.*
    INTO watched
    FROM fetchwork.output_watch AS w
    WHERE w.run_id = watch_output.run_id AND w.cluster_id = cluster AND w.proc_id = proc;
    its_owner := coalesce(its_owner, watched.owner);
    IF its_owner IS NULL OR NOT (
        fetchwork.sees_all(fetchwork.invoker())
        OR its_owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
    ) THEN
        RAISE EXCEPTION 'job ''%.%'' is not in the queue, or not yours to see',
            cluster, proc USING ERRCODE = 'FWNOT';
    END IF;
    SELECT r.*
    INTO live
    FROM fetchwork.run AS r
    WHERE r.cluster_id = cluster AND r.proc_id = proc AND r.state = 'running';
    IF watched.run_id IS NULL AND live.run_id IS NOT NULL THEN
        SELECT w.*
        INTO watched
        FROM fetchwork.output_watch AS w
        WHERE w.run_id = live.run_id;
    END IF;
    IF watched.run_id IS NULL AND live.run_id IS NULL THEN
        RETURN;
    END IF;
    IF watched.run_id IS NULL THEN
        -- unwatched output is deleted when the next run is watched
        PERFORM fetchwork.sweep_output();
        IF (SELECT count(*) FROM fetchwork.output_watch AS w WHERE w.owner = its_owner) >= 20 THEN
            RAISE EXCEPTION 'the output of 20 jobs of ''%'' is watched already',
                its_owner USING ERRCODE = 'FWDEN';
        END IF;
        INSERT INTO fetchwork.output_watch AS w (
            run_id, cluster_id, proc_id, owner, host_id, token, watched_until
        )
        VALUES (
            live.run_id, cluster, proc, its_owner, live.host_id, live.token,
            clock_timestamp() + interval '15 s'
        )
        ON CONFLICT (run_id) DO UPDATE SET watched_until = excluded.watched_until
        RETURNING w.* INTO watched;
        PERFORM fetchwork.notify_agents(json_build_array('o', live.host_id)::text);
    ELSIF watched.watched_until < clock_timestamp() + interval '10 s' THEN
        IF watched.watched_until < clock_timestamp() THEN
            PERFORM fetchwork.notify_agents(json_build_array('o', watched.host_id)::text);
        END IF;
        UPDATE fetchwork.output_watch AS w
        SET watched_until = clock_timestamp() + interval '15 s'
        WHERE w.run_id = watched.run_id;
    END IF;
    -- the host of an ended run sends the rest at once, if it is alive
    more := NOT watched.ended AND (
        live.run_id IS NOT DISTINCT FROM watched.run_id
        OR EXISTS (
            SELECT FROM fetchwork.run_history AS h
            WHERE h.run_id = watched.run_id AND h.ended_at > clock_timestamp() - interval '10 s'
        )
    );
    FOR run, running, problem, stream, at, content IN
        SELECT watched.run_id, more, watched.problem, c.stream::integer, c.starts_at, c.content
        FROM fetchwork.output_chunk AS c
        WHERE c.run_id = watched.run_id
            AND c.starts_at >= coalesce(CASE c.stream WHEN 1 THEN stdout_at ELSE stderr_at END, 0)
        ORDER BY c.stream, c.starts_at
        LIMIT 8
    LOOP
        found_any := true;
        RETURN NEXT;
    END LOOP;
    IF NOT found_any THEN
        run := watched.run_id;
        running := more;
        problem := watched.problem;
        RETURN NEXT;
    END IF;
END
$$;
