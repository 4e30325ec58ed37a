-- The resources that a run's job requested, had and used (resource_table). report is JOB_EXIT's, which may
-- lack attributes of the last update.
CREATE OR REPLACE FUNCTION fetchwork.requested_resources(
    exited fetchwork.run,
    report jsonb,
    run_s double precision
)
RETURNS jsonb
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT fetchwork.resource_table(
        a,
        fetchwork.slot_resources((exited).host_id, (exited).slot),
        coalesce((exited).usage, '{}') || coalesce(report, '{}'),
        run_s
    )
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = (exited).autocluster_id;
END;
