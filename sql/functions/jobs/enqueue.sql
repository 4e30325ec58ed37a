-- Puts an Idle job at the end of the queue: now, after a delay, or, if it starts at a time, when it is time
-- to offer it (functions/maintenance/wake.sql). A job with a cron schedule first gets its next time
-- (DeferralTime), if it has none or that is over. If matching reads attributes that change during a job's
-- life (NumJobStarts), the job moves to the autocluster of their present values. The caller has locked the
-- job's row, and set job_status to 1.
CREATE OR REPLACE FUNCTION fetchwork.enqueue(cluster integer, proc integer, delay interval DEFAULT '0')
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    queued fetchwork.job;
    whole jsonb;
    time_changed boolean := false;
    offered_at timestamptz;
    too_late_at timestamptz;
    moved integer;
BEGIN
    IF delay > '0' THEN
        UPDATE fetchwork.job AS j
        SET not_before = clock_timestamp() + delay
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
        RETURN;
    END IF;
    UPDATE fetchwork.job AS j
    SET position = nextval('fetchwork.position'), not_before = NULL, late_at = NULL
    WHERE j.cluster_id = cluster AND j.proc_id = proc
    RETURNING j.* INTO queued;
    SELECT c.ad || queued.ad
    INTO whole
    FROM fetchwork.cluster AS c
    WHERE c.cluster_id = queued.cluster_id;
    IF fetchwork.is_timed(whole) THEN
        SELECT d.offered_at, d.late_at
        INTO offered_at, too_late_at
        FROM fetchwork.deferral(whole) AS d;
        time_changed := fetchwork.has_cron(whole) AND coalesce(too_late_at <= clock_timestamp(), true);
        IF time_changed THEN
            queued.ad := queued.ad || jsonb_build_object(
                'DeferralTime',
                extract(epoch FROM fetchwork.next_cron_time(whole, clock_timestamp()))::bigint
            );
            whole := whole || queued.ad;
            SELECT d.offered_at, d.late_at
            INTO offered_at, too_late_at
            FROM fetchwork.deferral(whole) AS d;
        END IF;
        UPDATE fetchwork.job AS j
        SET ad = queued.ad, late_at = CASE WHEN fetchwork.has_cron(whole) THEN too_late_at END
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
    END IF;
    SELECT fetchwork.ensure_autocluster(whole, queued)
    INTO moved
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = queued.autocluster_id AND (time_changed OR fetchwork.follows_job(a.ad));
    IF moved <> queued.autocluster_id THEN
        UPDATE fetchwork.job AS j
        SET autocluster_id = moved
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs)
        VALUES (queued.autocluster_id, queued.batch_id, -1), (moved, queued.batch_id, 1);
        queued.autocluster_id := moved;
    END IF;
    IF offered_at > clock_timestamp() THEN
        UPDATE fetchwork.job AS j
        SET not_before = offered_at
        WHERE j.cluster_id = cluster AND j.proc_id = proc;
        RETURN;
    END IF;
    INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
    VALUES (queued.autocluster_id, queued.job_prio, queued.position, cluster, proc);
    PERFORM fetchwork.ensure_demand(queued.autocluster_id, queued.job_prio);
END
$$;
