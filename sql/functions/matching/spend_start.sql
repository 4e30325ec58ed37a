-- Spends a token of each limit on starts of this autocluster, for a run that was claimed at this time. The
-- token is spent even if the offer is given back: the host may have done the work of a start. A claim that is
-- rolled back has spent nothing.
-- The caller holds the lock of lock_limits since before it found that each limit allows a start
-- (start_limits_of), so the numbers have no gaps and their times ascend.
CREATE OR REPLACE FUNCTION fetchwork.spend_start(autocluster integer, at timestamptz)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    its record;
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.start_limit) THEN
        RETURN;
    END IF;
    FOR its IN
        SELECT l.scope, l.name, l.starts, l.spent + 1 AS number
        FROM fetchwork.start_limits_of(spend_start.autocluster) AS l
    LOOP
        INSERT INTO fetchwork.start_token (scope, name, number, at)
        VALUES (its.scope, its.name, its.number, spend_start.at);
        -- one row by its key: a range would pass the dead entries of all earlier tokens
        DELETE FROM fetchwork.start_token AS t
        WHERE t.scope = its.scope AND t.name = its.name AND t.number = its.number - its.starts;
    END LOOP;
END
$$;
