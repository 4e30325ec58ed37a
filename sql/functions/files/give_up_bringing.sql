-- Holds (12) jobs whose access point has not delivered their outputs within bring_wait, because the access
-- point may never come back. At most 100 in a call of maintain_queue. Returns how many.
-- Events: HELD (012). Locks: the jobs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.give_up_bringing()
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    late fetchwork.bringing;
    patience double precision := fetchwork.setting_value('bring_wait');
    held integer := 0;
BEGIN
    FOR late IN
        SELECT b.*
        FROM fetchwork.bringing AS b
        JOIN fetchwork.job AS j ON j.cluster_id = b.cluster_id AND j.proc_id = b.proc_id
        WHERE b.since < now() - make_interval(secs => patience)
        ORDER BY b.since
        LIMIT 100
        FOR UPDATE OF j SKIP LOCKED
    LOOP
        -- they may have been delivered since
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM fetchwork.bringing AS b
            WHERE b.cluster_id = late.cluster_id AND b.proc_id = late.proc_id AND b.run_id = late.run_id
        );
        PERFORM fetchwork.hold_jobs(
            ARRAY[late.cluster_id], ARRAY[late.proc_id],
            format(
                'Transfer output files failure: access point %s has not brought them for %s s; '
                'they are kept: see condor_transfer_data', late.access_point, patience
            ),
            -- ETIMEDOUT
            12, 110
        );
        held := held + 1;
    END LOOP;
    RETURN held;
END
$$;
