-- A job's id as HTCondor writes it: "42.0".
CREATE OR REPLACE FUNCTION fetchwork.job_id(cluster_id integer, proc_id integer)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN job_id.cluster_id::text || '.' || job_id.proc_id::text;
