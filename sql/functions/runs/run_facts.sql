-- What a run that started leaves in its job's ad: where it was, what it used, why it was vacated. "used" is
-- what its hooks reported.
CREATE OR REPLACE FUNCTION fetchwork.run_facts(
    live fetchwork.run,
    outcome fetchwork.run_outcome,
    reason text,
    used jsonb
)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT jsonb_strip_nulls(
        jsonb_build_object(
            'LastRemoteHost', (live).slot,
            'LastRemoteWallClockTime', ran.seconds,
            'CommittedTime', CASE WHEN run_facts.outcome = 'completed' THEN ran.seconds::bigint END
        )
        || fetchwork.memory_use(used)
        || fetchwork.dag_counts(used)
        || jsonb_build_object(
            'BlockReads', fetchwork.integer_of(used -> 'BlockReads'),
            'BlockWrites', fetchwork.integer_of(used -> 'BlockWrites'),
            'BlockReadKbytes', fetchwork.integer_of(used -> 'BlockReadKbytes'),
            'BlockWriteKbytes', fetchwork.integer_of(used -> 'BlockWriteKbytes'),
            'CheckpointNumber', (live).transfer -> 'CheckpointNumber',
            'LastCkptTime', (live).transfer -> 'LastCkptTime'
        )
        || CASE
            WHEN run_facts.outcome = 'completed' THEN jsonb_build_object('ToE', jsonb_build_object(
                'Who', 'itself',
                'How', 'OF_ITS_OWN_ACCORD',
                'HowCode', 0,
                'When', extract(epoch FROM clock_timestamp())::bigint,
                'ExitBySignal', (used -> 'ExitBySignal' = 'true') IS TRUE,
                'ExitCode', used -> 'ExitCode',
                'ExitSignal', used -> 'ExitSignal'
            ))
            WHEN run_facts.outcome IN ('evicted', 'vacated', 'held', 'removed') THEN jsonb_build_object(
                'LastVacateTime', extract(epoch FROM clock_timestamp())::bigint,
                'VacateReason', run_facts.reason
            )
            ELSE '{}'
        END
    )
    FROM (
        SELECT greatest(0, coalesce(
            fetchwork.number_of(used -> 'JobDuration'),
            extract(epoch FROM clock_timestamp() - (live).started_at)
        )) AS seconds
    ) AS ran;
END;
