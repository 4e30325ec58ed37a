-- What a hook's report says of the memory that a job uses, as far as it is numbers.
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
