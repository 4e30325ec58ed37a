-- GlobalJobId: a name that is unique among the jobs of all queues.
CREATE OR REPLACE FUNCTION fetchwork.global_job_id(cluster integer, proc integer, q_date timestamptz)
RETURNS text
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN current_database() || '#' || cluster || '.' || proc || '#' || extract(epoch FROM q_date)::bigint;
