-- Handles a job that has exited by itself, for finish() and finish_late(): its policy's verdict decides
-- (settle_exit), now, or after its access point has delivered its outputs (await_files). run_s: seconds that
-- it ran.
-- Events: those of settle_exit, then. The caller has locked the job and closed the run.
CREATE OR REPLACE FUNCTION fetchwork.follow_verdict(
    exited fetchwork.run,
    report jsonb,
    verdict jsonb,
    run_s double precision
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    failed boolean := fetchwork.integer_of(report -> 'ExitCode') IS DISTINCT FROM 0;
    quick boolean := run_s < fetchwork.setting_value('quick_failure');
    -- killed because it used too much: not an exit of its own, and not the host's fault
    killed boolean := fetchwork.integer_of(verdict -> 'code') IS NOT DISTINCT FROM 34;
BEGIN
    PERFORM fetchwork.note_start(
        exited,
        killed OR NOT (failed AND quick),
        CASE WHEN failed AND NOT killed
            THEN format(
                'job %s.%s failed after %s s',
                exited.cluster_id, exited.proc_id, round(run_s::numeric, 1)
            )
        END
    );
    UPDATE fetchwork.job AS j
    SET num_completions = j.num_completions + 1
    WHERE NOT killed AND j.cluster_id = exited.cluster_id AND j.proc_id = exited.proc_id;

    IF NOT fetchwork.await_files(exited, follow_verdict.verdict, run_s) THEN
        PERFORM fetchwork.settle_exit(exited, follow_verdict.report, follow_verdict.verdict, run_s);
    END IF;
END
$$;
