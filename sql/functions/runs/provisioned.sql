-- The resources of a static slot, by their names in its ad, as its agent last reported them. Empty for an
-- unknown slot and for a dynamic one, which is made anew for each job, under a name that earlier ones had.
CREATE OR REPLACE FUNCTION fetchwork.provisioned(its fetchwork.slot)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN CASE
    WHEN (its).name !~ '_[0-9]+(@|$)'
        THEN jsonb_strip_nulls(jsonb_build_object(
            'Cpus', (its).cpus,
            'Memory', (its).memory_mib,
            'Disk', (its).disk_kib,
            'GPUs', nullif((its).gpus, 0)
        ))
    ELSE '{}'
END;
