-- Sets a concurrency limit (<NAME>_LIMIT in HTCondor); NULL removes it. Errors: FWDEN, FWINV (the name).
CREATE OR REPLACE FUNCTION fetchwork.set_limit(name text, maximum double precision)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_admin();
    IF name !~ '^[A-Za-z0-9_.]+$' THEN
        RAISE EXCEPTION '% is not the name of a concurrency limit; allowed: letters, digits, _ .',
            quote_nullable(set_limit.name) USING ERRCODE = 'FWINV';
    END IF;
    DELETE FROM fetchwork.concurrency_limit AS l
    WHERE l.name = lower(set_limit.name);
    IF maximum IS NOT NULL THEN
        INSERT INTO fetchwork.concurrency_limit (name, maximum)
        VALUES (lower(set_limit.name), set_limit.maximum);
    END IF;
    PERFORM fetchwork.note_action('set_limit', NULL, NULL, set_limit.name, maximum::text);
    PERFORM fetchwork.notify_agents();
END
$$;
