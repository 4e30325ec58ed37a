-- Keeps the attributes that an offer took from the slot's ad (MATCH_Attr, MATCH_EXP_Attr) in the job's ad, as
-- a schedd does in its queue. False if the run is over or has started. FETCH_WORK's handler calls it for a
-- job with $$(Attr) before it hands the offer over. An agent can write no other attribute into a job's ad
-- with it.
-- Errors: FWINV (another attribute, too large). Locks: as live_run.
CREATE OR REPLACE FUNCTION fetchwork.note_match(run_id bigint, token uuid, remembered jsonb)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    strange text;
BEGIN
    SELECT k.key
    INTO strange
    FROM jsonb_object_keys(remembered) AS k (key)
    WHERE k.key !~ '^MATCH_[A-Za-z0-9_]+$'
    LIMIT 1;
    IF strange IS NOT NULL OR octet_length(remembered::text) > fetchwork.setting_value('max_job_bytes') THEN
        RAISE EXCEPTION 'a match''s attribute is "%", or they are too large; allowed: MATCH_..., and % bytes '
            '(setting max_job_bytes)',
            left(strange, 80), fetchwork.setting_value('max_job_bytes') USING ERRCODE = 'FWINV';
    END IF;
    live := fetchwork.known_run(run_id, token);
    IF live.run_id IS NULL OR live.state = 'running' THEN
        RETURN false;
    END IF;
    UPDATE fetchwork.job AS j
    SET ad = j.ad || remembered
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    RETURN true;
END
$$;
