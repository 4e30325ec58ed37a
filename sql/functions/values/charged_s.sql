-- The seconds until "at" that a run is charged for, since its start, or its claim before that: not those in
-- which it was suspended.
CREATE OR REPLACE FUNCTION fetchwork.charged_s(run fetchwork.run, at timestamptz)
RETURNS double precision
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN extract(epoch FROM coalesce((run).suspended_at, at) - coalesce((run).started_at, (run).claimed_at))
    - (run).suspended_s;
