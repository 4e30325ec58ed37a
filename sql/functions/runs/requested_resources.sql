-- What a run's job asked for and used, with the names that JobEventLog gives the table at the end of a
-- TERMINATED event; requests that only a slot's ad could answer are left out.
CREATE OR REPLACE FUNCTION fetchwork.requested_resources(exited fetchwork.run)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'RequestCpus', coalesce(a.request_cpus, 1)::bigint,
        'RequestMemory', a.request_memory_mib::bigint,
        'RequestDisk', a.request_disk_kib::bigint,
        'RequestGPUs', a.request_gpus::bigint,
        'MemoryUsage', fetchwork.memory_use((exited).usage) -> 'MemoryUsage'
    ))
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = (exited).autocluster_id;
END;
