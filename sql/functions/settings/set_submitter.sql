-- Sets a submitter's priority factor (condor_userprio -setfactor), usage (-setaccum, in weighted slot
-- seconds), maximum of running jobs, or ceilings (check_ceilings; 0: no ceiling). Keys: prio_factor, usage,
-- max_running, max_idle, max_autoclusters; null for the default. Errors: FWDEN, FWINV.
CREATE OR REPLACE FUNCTION fetchwork.set_submitter(name text, changes jsonb)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
BEGIN
    PERFORM fetchwork.require_admin();
    SELECT k.key
    INTO unknown
    FROM jsonb_object_keys(changes) AS k (key)
    WHERE k.key NOT IN ('prio_factor', 'usage', 'max_running', 'max_idle', 'max_autoclusters')
    LIMIT 1;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'submitter % has no setting %; allowed: prio_factor, usage, max_running, max_idle, '
            'max_autoclusters',
            quote_nullable(set_submitter.name), quote_nullable(unknown) USING ERRCODE = 'FWINV';
    END IF;
    IF (changes ->> 'prio_factor')::double precision < 1
        OR (changes ->> 'usage')::double precision < 0
        OR (changes ->> 'max_running')::integer < 0
        OR (changes ->> 'max_idle')::integer < 0
        OR (changes ->> 'max_autoclusters')::integer < 0
    THEN
        RAISE EXCEPTION 'submitter %: %; allowed: prio_factor 1 or more, the others not below 0',
            quote_nullable(set_submitter.name), changes USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.submitter (name)
    VALUES (set_submitter.name)
    ON CONFLICT DO NOTHING;
    UPDATE fetchwork.submitter AS s
    SET prio_factor = CASE
            WHEN changes ? 'prio_factor' THEN (changes ->> 'prio_factor')::double precision
            ELSE s.prio_factor
        END,
        usage = CASE
            WHEN changes ? 'usage' THEN coalesce((changes ->> 'usage')::double precision, 0)
            ELSE s.usage
        END,
        usage_at = CASE WHEN changes ? 'usage' THEN clock_timestamp() ELSE s.usage_at END,
        max_running = CASE
            WHEN changes ? 'max_running' THEN (changes ->> 'max_running')::integer
            ELSE s.max_running
        END,
        max_idle = CASE
            WHEN changes ? 'max_idle' THEN (changes ->> 'max_idle')::integer
            ELSE s.max_idle
        END,
        max_autoclusters = CASE
            WHEN changes ? 'max_autoclusters' THEN (changes ->> 'max_autoclusters')::integer
            ELSE s.max_autoclusters
        END
    WHERE s.name = set_submitter.name;
    PERFORM fetchwork.note_action('set_submitter', NULL, NULL, set_submitter.name, changes::text);
    -- a maximum may be higher: agents with waiting fetches read the demand again
    PERFORM fetchwork.notify_agents();
END
$$;
