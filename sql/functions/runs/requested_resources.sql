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
        coalesce(fetchwork.provisioned(s), '{}'),
        coalesce((exited).usage, '{}') || coalesce(report, '{}'),
        run_s
    )
    FROM fetchwork.autocluster AS a
    LEFT JOIN fetchwork.slot AS s ON s.host_id = (exited).host_id AND s.name = (exited).slot
    WHERE a.autocluster_id = (exited).autocluster_id;
END;
