-- Spends tokens of limits on starts, for runs that were claimed just now: of each limit that has starts, as
-- many as counts says, after number spent (claim_limits). A token is spent even if the offer is given back:
-- the host may have done the work of a start. A claim that is rolled back has spent nothing.
-- The caller holds the lock of lock_limits since before it found that each limit allows so many starts
-- (start_limits_of), so the numbers have no gaps and their times ascend.
CREATE OR REPLACE FUNCTION fetchwork.spend_starts(
    scopes text [],
    names text [],
    starts integer [],
    spent bigint [],
    counts double precision []
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    -- not before any of the runs was claimed
    spent_at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO fetchwork.start_token (scope, name, number, at)
    SELECT l.scope, l.name, l.spent + n.n, spent_at
    FROM unnest(scopes, names, starts, spent, counts) AS l (scope, name, starts, spent, count)
    CROSS JOIN generate_series(1, l.count::integer) AS n (n)
    WHERE l.starts IS NOT NULL;
    -- each row by its key: a range would pass the dead entries of all earlier tokens
    DELETE FROM fetchwork.start_token AS t
    USING unnest(scopes, names, starts, spent, counts) AS l (scope, name, starts, spent, count)
    CROSS JOIN generate_series(1, l.count::integer) AS n (n)
    WHERE l.starts IS NOT NULL
        AND t.scope = l.scope AND t.name = l.name
        AND t.number = l.spent + n.n - l.starts;
END
$$;
