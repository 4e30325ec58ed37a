-- True for one transaction at a time, until it ends: it does the work of this name; others get false at once
-- and leave the work to it. Locks a row instead of an advisory lock: any role that may connect can take
-- those, but only functions of this schema can lock this row.
CREATE OR REPLACE FUNCTION fetchwork.take_turn(name text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = take_turn.name
    FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;
