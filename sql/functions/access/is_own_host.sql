-- Whether the session may act for this host: for its own, or for any if it is not the session of one host and
-- the role that hosts share is served (must_join).
CREATE OR REPLACE FUNCTION fetchwork.is_own_host(host_id integer)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN CASE
    WHEN fetchwork.is_joined_host() THEN coalesce(host_id = fetchwork.own_host(), false)
    ELSE NOT fetchwork.must_join()
END;
