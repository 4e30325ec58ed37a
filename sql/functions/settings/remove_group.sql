-- Removes an accounting group and the groups below it; their submitters belong to the group above from then
-- on. Returns the number of groups. Errors: FWDEN, FWNOT.
CREATE OR REPLACE FUNCTION fetchwork.remove_group(name text)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    removed integer;
BEGIN
    PERFORM fetchwork.require_manager(remove_group.name);
    WITH gone AS (
        DELETE FROM fetchwork.accounting_group AS g
        WHERE lower(g.name) = lower(remove_group.name)
            OR starts_with(lower(g.name), lower(remove_group.name) || '.')
        RETURNING g.name
    )
    SELECT count(*)
    INTO removed
    FROM gone;
    IF removed = 0 THEN
        RAISE EXCEPTION 'group % does not exist', quote_nullable(remove_group.name)
            USING ERRCODE = 'FWNOT';
    END IF;
    PERFORM fetchwork.note_action('remove_group', NULL, NULL, remove_group.name, NULL);
    PERFORM fetchwork.notify_agents();
    RETURN removed;
END
$$;
