-- Seconds that a job has between the signal that it is to end with and SIGKILL: what it says itself, at most
-- HTCondor's own bound (MachineMaxVacateTime), which is also what one has that says nothing.
--
-- requested: 'remove', 'hold' or 'vacate'; ad: all that the job's ad says. KillSigTimeout is what
-- JobMaxVacateTime was called before.
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
