-- Whether this role may run the scheduler-universe jobs of an owner: an access point that serves all accounts
-- may run those of all, any other role those of the Owners that it may name.
CREATE OR REPLACE FUNCTION fetchwork.runs_jobs_of(role name, owner text)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN fetchwork.serves_all(role) OR owner = ANY (fetchwork.own_owners(role));
