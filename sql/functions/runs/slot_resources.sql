-- What a slot has, with the names of its ad, as its agent last reported it; only of a static slot: a dynamic
-- one is made for each job anew, under a name that others had before.
CREATE OR REPLACE FUNCTION fetchwork.slot_resources(host_id integer, slot text)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(
        (
            SELECT jsonb_strip_nulls(jsonb_build_object(
                'Cpus', s.cpus,
                'Memory', s.memory_mib,
                'Disk', s.disk_kib,
                'GPUs', nullif(s.gpus, 0)
            ))
            FROM fetchwork.slot AS s
            WHERE s.host_id = slot_resources.host_id
                AND s.name = slot_resources.slot
                AND s.name !~ '_[0-9]+(@|$)'
        ),
        '{}'
    );
END;
