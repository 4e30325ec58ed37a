-- The seconds that a run is charged for until "at", since it started: not those in which it was suspended.
CREATE OR REPLACE FUNCTION fetchwork.charged_s(run fetchwork.run, at timestamptz)
RETURNS double precision
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN extract(epoch FROM coalesce((run).suspended_at, at) - (run).started_at) - (run).suspended_s;
