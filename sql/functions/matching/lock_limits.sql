-- Lets one claim at a time count limited runs, to the end of its transaction. False if another kept that for
-- longer than a second: then the caller offers nothing that is limited, and the slot asks again.
--
-- Locks: one row for all limits, which only functions of this schema can lock. One for each limit would let
-- two claims that look at several autoclusters, in different orders, wait for each other.
CREATE OR REPLACE FUNCTION fetchwork.lock_limits()
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $$
BEGIN
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = 'limits'
    FOR NO KEY UPDATE;
    RETURN true;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN false;
END
$$;
