-- Decides about a job that has exited by itself and whose outputs are delivered, for follow_verdict() and
-- brought(): its policy's verdict says complete, requeue, hold or remove (see finish). A requeue with changes
-- is for a job that used too much, and has it ask for more. run_s: seconds that it ran.
-- Events: TERMINATED (005), EVICTED (004), HELD (012) or ABORTED (009). The caller has locked the job and
-- closed the run.
CREATE OR REPLACE FUNCTION fetchwork.settle_exit(
    exited fetchwork.run,
    report jsonb,
    verdict jsonb,
    run_s double precision
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    action text := coalesce(verdict ->> 'action', 'complete');
    reason text := verdict ->> 'reason';
    more jsonb := nullif(verdict -> 'changes', 'null');
BEGIN
    IF action = 'requeue' AND more IS NOT NULL THEN
        PERFORM fetchwork.ask_for_more(
            exited.cluster_id, exited.proc_id, more,
            fetchwork.integer_of(verdict -> 'code'), fetchwork.integer_of(verdict -> 'subcode')
        );
        PERFORM fetchwork.record_eviction(exited, reason, settle_exit.report);
        PERFORM fetchwork.back_to_idle(exited, reason);
    ELSIF action = 'requeue' THEN
        PERFORM fetchwork.record_eviction(
            exited, coalesce(reason, 'OnExitRemove is false: the job runs again'), settle_exit.report, true
        );
        -- it waits for its next time, although this time's window may still be open
        UPDATE fetchwork.job AS j
        SET ad = j.ad - 'DeferralTime'
        WHERE j.cluster_id = exited.cluster_id
            AND j.proc_id = exited.proc_id
            AND j.ad ?& ARRAY['DeferralTime', 'FetchWorkTimeZone'];
        PERFORM fetchwork.back_to_idle(
            exited, reason, make_interval(
                secs => least(greatest(coalesce(fetchwork.number_of(verdict -> 'delay_s'), 0), 0), 1e8)
            )
        );
    ELSIF action = 'hold' THEN
        PERFORM fetchwork.hold_jobs(
            ARRAY[exited.cluster_id], ARRAY[exited.proc_id], coalesce(reason, 'OnExitHold is true'),
            coalesce(fetchwork.integer_of(verdict -> 'code'), 3),
            coalesce(fetchwork.integer_of(verdict -> 'subcode'), 0)
        );
    ELSIF action = 'remove' THEN
        reason := coalesce(reason, 'removed by its policy');
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        VALUES (9, exited.cluster_id, exited.proc_id, exited.run_id, jsonb_build_object('Reason', reason));
        PERFORM fetchwork.retire_job(
            exited.cluster_id, exited.proc_id, 3::smallint, reason, settle_exit.report, exited.slot
        );
    ELSE
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        VALUES (
            5, exited.cluster_id, exited.proc_id, exited.run_id,
            (
                -- of all runs, if there was more than one
                SELECT fetchwork.completion(
                    fetchwork.requested_resources(exited, settle_exit.report, run_s),
                    j.num_starts, j.user_cpu_s, j.sys_cpu_s,
                    settle_exit.report || coalesce(exited.transfer, '{}') || jsonb_build_object(
                        'BytesSent', j.facts -> 'BytesSent',
                        'BytesRecvd', j.facts -> 'BytesRecvd'
                    ),
                    run_s
                )
                FROM fetchwork.job AS j
                WHERE j.cluster_id = exited.cluster_id AND j.proc_id = exited.proc_id
            )
        );
        PERFORM fetchwork.retire_job(
            exited.cluster_id, exited.proc_id, 4::smallint, reason, settle_exit.report, exited.slot
        );
    END IF;
END
$$;
