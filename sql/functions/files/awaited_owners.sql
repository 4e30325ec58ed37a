-- The Owners whose jobs' ends wait until this access point delivers their outputs (awaited_outputs), if the
-- caller may name them. A call costs time by the number of Owners, not of their jobs. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.awaited_owners(access_point text)
RETURNS text[]
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_bitmapscan = off
AS $$
DECLARE
    role name := fetchwork.invoker();
    next_owner text := '';
    owners text[] := '{}';
BEGIN
    -- a search of the index for each
    LOOP
        next_owner := (
            SELECT min(o.owner)
            FROM fetchwork.bringing AS o
            WHERE o.access_point = awaited_owners.access_point AND o.owner > next_owner
        );
        EXIT WHEN next_owner IS NULL;
        IF fetchwork.is_admin(role)
            OR next_owner = ANY (fetchwork.own_owners(role))
            OR fetchwork.serves_all(role)
        THEN
            owners := owners || next_owner;
        END IF;
    END LOOP;
    RETURN owners;
END
$$;
