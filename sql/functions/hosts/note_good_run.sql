-- Notes that a job of this owner ran well on a host, or runs well there: the host is not a black hole, and
-- its bad starts in a row are over. Owners with several failed jobs there meanwhile caused them themselves:
-- for an hour (max_black_hole_rest), or until they have a good run there, their bad starts do not count
-- against this host. For note_start and notice_good_runs. Locks: the host's row, if its starts were bad.
CREATE OR REPLACE FUNCTION fetchwork.note_good_run(host_id integer, owner text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    half double precision := ceil(fetchwork.setting_value('black_hole_runs') / 2);
    blame interval := fetchwork.setting_time('max_black_hole_rest');
BEGIN
    UPDATE fetchwork.host AS h
    SET bad_starts = 0, bad_since = NULL, bad_reason = NULL, black_hole_since = NULL
    WHERE h.host_id = note_good_run.host_id AND (h.bad_starts > 0 OR h.black_hole_since IS NOT NULL);
    IF FOUND THEN
        UPDATE fetchwork.failing_owner AS f
        SET blamed_until = clock_timestamp() + blame
        WHERE f.host_id = note_good_run.host_id AND cardinality(f.bad_jobs) >= half;
    END IF;
    DELETE FROM fetchwork.failing_owner AS f
    WHERE f.host_id = note_good_run.host_id
        AND (
            f.owner = note_good_run.owner
            OR (f.rest_until IS NULL AND (f.blamed_until > clock_timestamp()) IS NOT TRUE)
        );
END
$$;
