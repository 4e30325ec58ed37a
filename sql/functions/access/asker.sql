-- Who asks, as text: the role, and the account that it acts for. What is counted or kept by caller is counted
-- by this, so that the people behind one access point have a budget each.
CREATE OR REPLACE FUNCTION fetchwork.asker()
RETURNS text
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
RETURN fetchwork.invoker() || coalesce(' for ' || fetchwork.acting_for(fetchwork.invoker()), '');
