-- The caller as text: the role, and the account that it acts for. Counts and reservations by caller use it,
-- so that each person behind one access point has a budget of his own.
CREATE OR REPLACE FUNCTION fetchwork.asker()
RETURNS text
LANGUAGE sql
STABLE
RETURN fetchwork.invoker() || coalesce(' for ' || fetchwork.acting_for(fetchwork.invoker()), '');
