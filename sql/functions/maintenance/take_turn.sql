-- True for one transaction at a time: the work of this name is its own until it ends. The others are told so
-- at once, and leave the work to it. A row and no advisory lock: those can be taken by any role that may
-- connect, and rows of this table by functions of this schema only.
CREATE OR REPLACE FUNCTION fetchwork.take_turn(name text)
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = take_turn.name
    FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;
