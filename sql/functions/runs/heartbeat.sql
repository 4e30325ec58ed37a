-- UPDATE_JOB_INFO: the starter is alive. Writes the usage, extends the run's deadline, and answers whether
-- the job must end.
-- report: the update's relevant attributes as JSON: JobState, JobPid, ImageSize, ResidentSetSize,
-- RemoteUserCpu, RemoteSysCpu, ... The first update, before the job exists, has no JobState.
-- Returns action NULL; or 'end' with the reason, the seconds since a hook first got that answer (signalled_s;
-- NULL: never) and the job's own signals and vacate time; 'gone' if the run is over without a report of its
-- own (superseded, lost), so the job must end at once; 'late' after the run's own end. Events: JOB_SUSPENDED
-- (010), JOB_UNSUSPENDED (011), those of renew_runs. Locks: as live_run.
CREATE OR REPLACE FUNCTION fetchwork.heartbeat(run_id bigint, token uuid, report jsonb)
RETURNS TABLE (
    action text,
    reason text,
    requested text,
    signalled_s double precision,
    kill_sig text,
    max_vacate_s double precision
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    live fetchwork.run;
    ended fetchwork.run_history;
    whole jsonb;
    suspended boolean := coalesce(report ->> 'JobState' = 'Suspended', false);
    at timestamptz := clock_timestamp();
    processes integer := fetchwork.integer_of(report -> 'NumPids');
BEGIN
    report := fetchwork.checked_report(report);
    live := fetchwork.live_run(heartbeat.run_id, heartbeat.token);
    IF live.run_id IS NULL THEN
        ended := fetchwork.ended_run(heartbeat.run_id, heartbeat.token);
        action := CASE WHEN ended.report IS NOT NULL THEN 'late' ELSE 'gone' END;
        reason := coalesce(ended.reason, ended.outcome::text);
        RETURN NEXT;
        RETURN;
    END IF;
    -- its row is locked, so renew_runs does not skip it
    IF fetchwork.renew_runs(ARRAY[live.run_id], ARRAY[live.token], ARRAY[heartbeat.report]) <> '{}' THEN
        RETURN NEXT;
        RETURN;
    END IF;
    -- the job has to end, or was suspended or resumed
    UPDATE fetchwork.run AS r
    SET contact_at = clock_timestamp(),
        -- before the start the offer's own short deadline holds: this report shows only that a starter begins
        deadline = CASE WHEN r.state = 'running' THEN clock_timestamp() + r.lease ELSE r.deadline END,
        job_pid = coalesce(fetchwork.integer_of(heartbeat.report -> 'JobPid'), r.job_pid),
        usage = CASE WHEN heartbeat.report ? 'JobState' THEN heartbeat.report ELSE r.usage END,
        job_status = CASE
            WHEN r.job_status = 2 AND suspended THEN 7
            WHEN r.job_status = 7 AND NOT suspended AND heartbeat.report ? 'JobState' THEN 2
            ELSE r.job_status
        END,
        -- it goes on, as was asked
        suspension = CASE
            WHEN r.suspension = 'continue' AND NOT suspended AND heartbeat.report ? 'JobState' THEN NULL
            ELSE r.suspension
        END,
        suspended_at = CASE
            WHEN suspended THEN coalesce(r.suspended_at, at)
            WHEN NOT heartbeat.report ? 'JobState' THEN r.suspended_at
        END,
        suspended_s = r.suspended_s + CASE
            WHEN heartbeat.report ? 'JobState' AND NOT suspended
                THEN coalesce(extract(epoch FROM at - r.suspended_at), 0)
            ELSE 0
        END,
        signalled_at = CASE
            WHEN r.end_requested IS NOT NULL AND heartbeat.report ? 'JobPid'
                THEN coalesce(r.signalled_at, clock_timestamp())
            ELSE r.signalled_at
        END
    WHERE r.run_id = live.run_id;
    IF live.state = 'running'
        AND heartbeat.report ? 'JobState'
        AND live.job_status IN (2, 7)
        AND suspended <> (live.job_status = 7)
    THEN
        UPDATE fetchwork.job AS j
        SET job_status = CASE WHEN suspended THEN 7 ELSE 2 END,
            status_at = at,
            facts = j.facts || jsonb_build_object('LastJobStatus', j.job_status) || CASE
                WHEN suspended THEN jsonb_build_object(
                    'TotalSuspensions', coalesce((j.facts -> 'TotalSuspensions')::integer, 0) + 1,
                    'LastSuspensionTime', extract(epoch FROM at)::bigint
                )
                ELSE fetchwork.suspension_facts(j.facts, live, at)
            END
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        VALUES (
            CASE WHEN suspended THEN 10 ELSE 11 END, live.cluster_id, live.proc_id, live.run_id,
            CASE WHEN suspended THEN jsonb_build_object('NumberOfPIDs', coalesce(processes, 1)) END
        );
    END IF;
    IF live.end_requested IS NOT NULL THEN
        SELECT c.ad || j.ad
        INTO whole
        FROM fetchwork.job AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
        action := 'end';
        reason := live.end_reason;
        requested := live.end_requested;
        signalled_s := extract(epoch FROM clock_timestamp() - live.signalled_at);
        kill_sig := CASE live.end_requested
            WHEN 'remove' THEN coalesce(whole ->> 'RemoveKillSig', whole ->> 'KillSig')
            WHEN 'hold' THEN coalesce(whole ->> 'HoldKillSig', whole ->> 'KillSig')
            ELSE whole ->> 'KillSig'
        END;
        max_vacate_s := fetchwork.vacate_s(live.end_requested, whole);
    END IF;
    RETURN NEXT;
END
$$;
