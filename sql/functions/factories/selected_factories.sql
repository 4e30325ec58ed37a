-- The late clusters that a caller names ("42", or "42.-1" without the jobs that are made), or all of an
-- owner, as selected_jobs: only those that the invoker may change, each once, locked.
-- Locks: the factories. To be called before the jobs are locked: a transaction that makes jobs has the
-- factory and may then wait for a job.
CREATE OR REPLACE FUNCTION fetchwork.selected_factories(jobs text [], owner text, role name)
RETURNS integer []
LANGUAGE sql
BEGIN ATOMIC
    SELECT coalesce(array_agg(l.cluster_id), '{}')
    FROM (
        SELECT f.cluster_id
        FROM fetchwork.factory AS f
        WHERE (selected_factories.owner IS NULL OR f.owner = selected_factories.owner)
            AND (
                selected_factories.jobs IS NULL
                OR f.cluster_id::text = ANY (selected_factories.jobs)
                OR f.cluster_id || '.-1' = ANY (selected_factories.jobs)
            )
            AND (
                fetchwork.is_admin(selected_factories.role)
                OR f.owner = ANY (fetchwork.own_owners(selected_factories.role))
            )
        ORDER BY f.cluster_id
        FOR UPDATE
    ) AS l;
END;
