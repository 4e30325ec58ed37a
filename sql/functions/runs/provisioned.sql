-- What a slot has, with the names of its ad, as its agent last reported it; only of a static slot: a dynamic
-- one is made for each job anew, under a name that others had before. An empty object for it, and where no
-- slot is known.
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
