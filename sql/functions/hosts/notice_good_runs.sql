-- Ends black holes, and backoffs from owners, if a job runs well there: the host gets further jobs before
-- this one ends. Called by maintain_queue. Locks: rows of hosts whose starts were bad; skips locked ones
-- until the next call.
CREATE OR REPLACE FUNCTION fetchwork.notice_good_runs()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    well record;
BEGIN
    FOR well IN
        SELECT h.host_id, w.owner
        FROM fetchwork.host AS h
        CROSS JOIN LATERAL (
            SELECT r.owner
            FROM fetchwork.runs_well(h.host_id, h.bad_since) AS r
            LIMIT 1
        ) AS w
        WHERE h.black_hole_since IS NOT NULL
        UNION ALL
        SELECT f.host_id, f.owner
        FROM fetchwork.failing_owner AS f
        WHERE f.rest_until IS NOT NULL
            AND EXISTS (
                SELECT FROM fetchwork.runs_well(f.host_id, f.last_bad_at) AS r
                WHERE r.owner = f.owner
            )
    LOOP
        PERFORM FROM fetchwork.host AS h
        WHERE h.host_id = well.host_id
        FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM fetchwork.note_good_run(well.host_id, well.owner);
        END IF;
    END LOOP;
END
$$;
