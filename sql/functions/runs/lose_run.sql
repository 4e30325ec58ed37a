-- Ends a started run that fell silent. Its job waits again; after max_lost losses in its life it is Held,
-- because it may be killing hosts or starters. The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.lose_run(live fetchwork.run, reason text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    losses integer;
    status smallint;
BEGIN
    PERFORM fetchwork.close_run(live, 'lost', lose_run.reason);
    UPDATE fetchwork.job AS j
    SET num_lost = j.num_lost + 1, last_reason = lose_run.reason
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id
    RETURNING j.num_lost, j.job_status INTO losses, status;
    PERFORM fetchwork.record_eviction(live, lose_run.reason);
    IF status IN (2, 7) AND losses >= fetchwork.setting_value('max_lost') THEN
        PERFORM fetchwork.hold_jobs(
            ARRAY[live.cluster_id],
            ARRAY[live.proc_id],
            format('lost %s times, last: %s', losses, lose_run.reason),
            26,
            0
        );
        RETURN;
    END IF;
    PERFORM fetchwork.back_to_idle(live, lose_run.reason);
END
$$;
