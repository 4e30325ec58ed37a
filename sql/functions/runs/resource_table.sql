-- The resources that a job requested, had and used, by JobEventLog's names for the table at the end of a
-- TERMINATED or EVICTED event; leaves out a request that depends on a slot's ad. used: the reports of the
-- run's hooks, over run_s seconds.
CREATE OR REPLACE FUNCTION fetchwork.resource_table(
    its fetchwork.autocluster,
    provisioned jsonb,
    used jsonb,
    run_s double precision
)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN provisioned || jsonb_strip_nulls(jsonb_build_object(
    'RequestCpus', coalesce((its).request_cpus, 1)::bigint,
    'RequestMemory', (its).request_memory_mib::bigint,
    'RequestDisk', (its).request_disk_kib::bigint,
    'RequestGPUs', (its).request_gpus::bigint,
    'MemoryUsage', fetchwork.memory_use(used) -> 'MemoryUsage',
    'DiskUsage', fetchwork.integer_of(used -> 'DiskUsage'),
    'CpusUsage', round(
        (
            fetchwork.number_of(used -> 'RemoteUserCpu')
            + fetchwork.number_of(used -> 'RemoteSysCpu')
        )::numeric / greatest(run_s, 0.01)::numeric,
        2
    )
));
