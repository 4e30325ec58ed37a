-- Whether the session may do the leader tasks that show the jobs of all hosts (policies of jobs that wait,
-- deletes in buckets): not as a host that was invited without "trusted", nor as one that must_join, nor as an
-- access point that was invited for some accounts, nor while it acts for one.
CREATE OR REPLACE FUNCTION fetchwork.may_see_all()
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (NOT fetchwork.is_joined_host() OR fetchwork.is_trusted_host())
        AND NOT fetchwork.must_join()
        AND fetchwork.may_act_for(NULL)
        AND fetchwork.acting_for(fetchwork.invoker()) IS NULL;
END
$$;
