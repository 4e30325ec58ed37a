-- Whether the caller may put events into the stream (sequence_events), and this server can be written.
CREATE OR REPLACE FUNCTION fetchwork.may_sequence_events()
RETURNS boolean
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN NOT pg_is_in_recovery()
    AND has_function_privilege('fetchwork.sequence_events(pg_snapshot)', 'EXECUTE');
