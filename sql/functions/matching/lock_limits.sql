-- Makes the caller the only one to count limited runs, to the end of its transaction, with quotas of groups
-- that are fresh. False if another transaction held the lock for longer than a second: then the caller offers
-- nothing that is limited, and the slot asks again.
-- Locks: one row for all limits, which only functions of this schema can lock, and those of count_groups.
-- With one row for each limit, two claims with several autoclusters in different orders could deadlock.
CREATE OR REPLACE FUNCTION fetchwork.lock_limits()
RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '1s'
AS $$
BEGIN
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = 'limits'
    FOR NO KEY UPDATE;
    PERFORM fetchwork.count_groups();
    RETURN true;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN false;
END
$$;
