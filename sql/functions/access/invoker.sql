-- The calling role: the one set by SET ROLE, or else the one that logged in. Rights are checked for this
-- role, because inside a SECURITY DEFINER function current_user is the function's owner. PostgreSQL lets a
-- session set "role" only to a role that it is a member of.
CREATE OR REPLACE FUNCTION fetchwork.invoker()
RETURNS name
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
