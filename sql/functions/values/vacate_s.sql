-- Seconds between the signal that ends a job and SIGKILL: the job's own wish, at most HTCondor's bound
-- (MachineMaxVacateTime), which is also the default. requested: 'remove', 'hold' or 'vacate'; ad: the job's
-- whole ad. KillSigTimeout is the old name of JobMaxVacateTime.
CREATE OR REPLACE FUNCTION fetchwork.vacate_s(requested text, ad jsonb)
RETURNS double precision
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN requested <> 'vacate' AND ad -> 'WantGracefulRemoval' IN ('false', '0') THEN 0
    ELSE least(
        greatest(
            coalesce(fetchwork.integer_of(coalesce(ad -> 'JobMaxVacateTime', ad -> 'KillSigTimeout')), 600),
            0
        ),
        600
    )
END;
