-- Puts one job into the queue and returns its id, "42.0".
--
--     SELECT fetchwork.submit(cmd => '/bin/sleep', arguments => '60', owner => 'alice', request_cpus => 1);
--     SELECT fetchwork.submit(
--         cmd => '/bin/true', owner => 'alice', ad => '{"Requirements": "/Expr(TARGET.HasGPU)/"}'
--     );
--
-- arguments and environment have HTCondor's new syntax without the outer double quotes (one 'two three'; A=1
-- B='x y'). ad: other attributes, in HTCondor's JSON form; a named parameter overrides it. Memory is in MiB,
-- disk in KiB. key: as for submit_cluster. Errors: FWINV, FWDEN as submit_cluster.
CREATE OR REPLACE FUNCTION fetchwork.submit(
    cmd text,
    owner text DEFAULT NULL,
    arguments text DEFAULT NULL,
    environment text DEFAULT NULL,
    iwd text DEFAULT NULL,
    input text DEFAULT NULL,
    output text DEFAULT NULL,
    error text DEFAULT NULL,
    request_cpus double precision DEFAULT 1,
    request_memory double precision DEFAULT NULL,
    request_disk double precision DEFAULT NULL,
    request_gpus integer DEFAULT NULL,
    requirements text DEFAULT NULL,
    rank text DEFAULT NULL,
    priority integer DEFAULT NULL,
    queue text DEFAULT NULL,
    batch_name text DEFAULT NULL,
    accounting_group text DEFAULT NULL,
    ad jsonb DEFAULT '{}',
    key text DEFAULT NULL
)
RETURNS text
LANGUAGE sql
BEGIN ATOMIC
    SELECT fetchwork.submit_cluster(
        coalesce(submit.ad, '{}') || jsonb_strip_nulls(jsonb_build_object(
            'Cmd', submit.cmd,
            'Owner', submit.owner,
            'Arguments', submit.arguments,
            'Environment', submit.environment,
            'Iwd', submit.iwd,
            'In', submit.input,
            'Out', submit.output,
            'Err', submit.error,
            'RequestCpus', submit.request_cpus,
            'RequestMemory', submit.request_memory,
            'RequestDisk', submit.request_disk,
            'RequestGPUs', submit.request_gpus,
            'Requirements', '/Expr(' || submit.requirements || ')/',
            'Rank', '/Expr(' || submit.rank || ')/',
            'JobPrio', submit.priority,
            'FetchWorkQueue', submit.queue,
            'JobBatchName', submit.batch_name,
            'AccountingGroup', submit.accounting_group
        )),
        ARRAY['{}'::jsonb],
        key => submit.key
    )::text || '.0';
END;
