-- What a run's job asked for, had and used, with the names that JobEventLog gives the table at the end of a
-- TERMINATED or EVICTED event; a request that only a slot's ad could answer is left out. "report" is that of
-- JOB_EXIT, which may lack what the last update had.
CREATE OR REPLACE FUNCTION fetchwork.requested_resources(
    exited fetchwork.run,
    report jsonb,
    run_s double precision
)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.slot_resources((exited).host_id, (exited).slot) || jsonb_strip_nulls(jsonb_build_object(
        'RequestCpus', coalesce(a.request_cpus, 1)::bigint,
        'RequestMemory', a.request_memory_mib::bigint,
        'RequestDisk', a.request_disk_kib::bigint,
        'RequestGPUs', a.request_gpus::bigint,
        'MemoryUsage', fetchwork.memory_use(used.ad) -> 'MemoryUsage',
        'DiskUsage', fetchwork.integer_of(used.ad -> 'DiskUsage'),
        'CpusUsage', round(
            (
                fetchwork.number_of(used.ad -> 'RemoteUserCpu')
                + fetchwork.number_of(used.ad -> 'RemoteSysCpu')
            )::numeric / nullif(greatest(run_s, 0.01), 0.01)::numeric,
            2
        )
    ))
    FROM fetchwork.autocluster AS a
    CROSS JOIN (SELECT coalesce((exited).usage, '{}') || coalesce(report, '{}') AS ad) AS used
    WHERE a.autocluster_id = (exited).autocluster_id;
END;
