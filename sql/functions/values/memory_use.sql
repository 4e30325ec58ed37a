-- The numbers in a hook's report about a job's use of memory.
CREATE OR REPLACE FUNCTION fetchwork.memory_use(report jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'ImageSize', fetchwork.integer_of(report -> 'ImageSize'),
    'ResidentSetSize', fetchwork.integer_of(report -> 'ResidentSetSize'),
    'MemoryUsage', coalesce(
        fetchwork.integer_of(report -> 'MemoryUsage'),
        (fetchwork.integer_of(report -> 'ResidentSetSize') + 1023) / 1024
    )
));
