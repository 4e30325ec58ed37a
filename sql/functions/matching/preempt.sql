-- Ends running runs in favour of waiting jobs, in queues that allow it (preempt_ratio, preempt_prio;
-- functions/settings/set_queue.sql). HTCondor itself can't: it drops a better-ranked job that a hook offers
-- to a busy slot. Agents call it every few seconds; one at a time does the work. Returns how many runs were
-- asked to end.
-- A run may give way if a waiting job of the same queue fits its slot by the known numbers and
-- - its submitter's effective priority is better by the queue's ratio, or
-- - it is of the same submitter and its JobPrio is higher by the queue's step.
-- No run gives way to a job of another accounting group with a quota: the slot would go to the group that is
-- next, which may be the one that lost it. None gives way if a limit would keep the waiting job from being
-- claimed also then (blocked_by).
-- At most one run gives way for each waiting (autocluster, priority), and none while an earlier request for
-- it is still under way, so that a slow end does not cost more runs than there are jobs. The job goes back to
-- Idle and is not charged a try (functions/runs/finish.sql).
-- Locks: the jobs and runs; skips jobs that are locked, because it holds other jobs' rows meanwhile.
CREATE OR REPLACE FUNCTION fetchwork.preempt()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    want record;
    victim record;
    live fetchwork.run;
    blocked text;
    ended integer := 0;
BEGIN
    IF NOT EXISTS (
        SELECT FROM fetchwork.queue AS q
        WHERE q.preempt_ratio IS NOT NULL OR q.preempt_prio IS NOT NULL
    ) THEN
        RETURN 0;
    END IF;
    IF NOT fetchwork.take_turn('preempt') THEN
        RETURN 0;
    END IF;
    FOR want IN
        SELECT DISTINCT
            d.autocluster_id, d.job_prio, a.submitter, a.queue, a.request_cpus, a.request_memory_mib,
            a.request_gpus, q.preempt_ratio, q.preempt_prio, s.effective_prio, s.accounting_group
        FROM fetchwork.demand AS d
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = d.autocluster_id
        JOIN fetchwork.queue AS q ON q.name = a.queue
            AND NOT q.paused
            AND (q.preempt_ratio IS NOT NULL OR q.preempt_prio IS NOT NULL)
        JOIN fetchwork.shares() AS s ON s.submitter = a.submitter
        WHERE a.access_point IS NULL AND EXISTS (
            SELECT FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = d.autocluster_id AND w.job_prio = d.job_prio
        )
        ORDER BY s.effective_prio, d.job_prio DESC
    LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM fetchwork.run AS r
            WHERE r.end_requested = 'vacate'
                AND r.end_reason = format('preempted for autocluster %s', want.autocluster_id)
        );
        SELECT
            r.run_id, r.token, r.cluster_id, r.proc_id,
            CASE WHEN l.slot_type IS DISTINCT FROM 'Dynamic' THEN l.weight END AS weight
        INTO victim
        FROM fetchwork.run AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id AND a.queue = want.queue
        JOIN fetchwork.shares() AS s ON s.submitter = a.submitter
            AND s.accounting_group IS NOT DISTINCT FROM want.accounting_group
        JOIN fetchwork.job AS j ON j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id
        LEFT JOIN fetchwork.slot AS l ON l.host_id = r.host_id AND l.name = r.slot
        WHERE r.state = 'running' AND r.end_requested IS NULL
            AND (
                (
                    a.submitter <> want.submitter
                    AND s.effective_prio >= want.effective_prio * want.preempt_ratio
                )
                OR (
                    a.submitter = want.submitter
                    AND j.job_prio + want.preempt_prio <= want.job_prio
                )
            )
            AND coalesce(want.request_cpus <= coalesce(l.cpus, a.request_cpus), true)
            AND coalesce(want.request_memory_mib <= coalesce(l.memory_mib, a.request_memory_mib), true)
            AND coalesce(want.request_gpus <= coalesce(l.gpus, a.request_gpus, 0), true)
        -- furthest above its share, lowest priority, youngest run: this loses the least work
        ORDER BY s.effective_prio DESC, j.job_prio, r.started_at DESC
        LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        PERFORM FROM fetchwork.job AS j
        WHERE j.cluster_id = victim.cluster_id AND j.proc_id = victim.proc_id
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        live := fetchwork.live_run(victim.run_id, victim.token);
        CONTINUE WHEN live.run_id IS NULL OR live.end_requested IS NOT NULL;
        IF fetchwork.blocked_by(want.autocluster_id, victim.weight) IS NOT NULL THEN
            -- a limit may be reached by the victim itself: it is asked again without that run, whose row is
            -- back when the block ends
            BEGIN
                DELETE FROM fetchwork.run AS r
                WHERE r.run_id = victim.run_id;
                blocked := fetchwork.blocked_by(want.autocluster_id, victim.weight);
                RAISE EXCEPTION USING ERRCODE = 'FWINV';
            EXCEPTION
                WHEN SQLSTATE 'FWINV' THEN
                    CONTINUE WHEN blocked IS NOT NULL;
            END;
        END IF;
        PERFORM fetchwork.end_live_runs(
            ARRAY[live.cluster_id], ARRAY[live.proc_id], 'vacate',
            format('preempted for autocluster %s', want.autocluster_id)
        );
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END
$$;
