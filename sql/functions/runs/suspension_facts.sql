-- The attributes that a job's ad gets when a suspension of this run is over, as from a shadow: facts has the
-- sum of earlier ones. Empty if the run is not suspended. Not IMMUTABLE, as in bytes_moved.
CREATE OR REPLACE FUNCTION fetchwork.suspension_facts(facts jsonb, live fetchwork.run, at timestamptz)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN (live).suspended_at IS NOT NULL THEN jsonb_build_object(
        'LastSuspensionTime', 0,
        'CumulativeSuspensionTime', (
            coalesce(fetchwork.number_of(facts -> 'CumulativeSuspensionTime'), 0)
            + extract(epoch FROM at - (live).suspended_at)
        )::bigint
    )
    ELSE '{}'
END;
