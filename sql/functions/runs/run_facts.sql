-- The attributes that a started run leaves in its job's ad: its slot, its use, the reason of a vacate. used:
-- the reports of its hooks; it ran run_s seconds and ended at "at".
CREATE OR REPLACE FUNCTION fetchwork.run_facts(
    live fetchwork.run,
    outcome fetchwork.run_outcome,
    reason text,
    used jsonb,
    run_s double precision,
    at timestamptz
)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(
    jsonb_build_object(
        'LastRemoteHost', (live).slot,
        'LastRemoteWallClockTime', run_s,
        'CommittedTime', CASE WHEN outcome = 'completed' THEN run_s::bigint END,
        'CommittedSuspensionTime', CASE
            WHEN outcome = 'completed' THEN nullif(
                (
                    (live).suspended_s + coalesce(extract(epoch FROM at - (live).suspended_at), 0)
                )::bigint,
                0
            )
        END,
        'CheckpointNumber', (live).transfer -> 'CheckpointNumber',
        'LastCkptTime', (live).transfer -> 'LastCkptTime',
        'ToE', CASE
            WHEN outcome = 'completed' THEN jsonb_build_object(
                'Who', 'itself',
                'How', 'OF_ITS_OWN_ACCORD',
                'HowCode', 0,
                'When', extract(epoch FROM at)::bigint,
                'ExitBySignal', (used -> 'ExitBySignal' = 'true') IS TRUE,
                'ExitCode', used -> 'ExitCode',
                'ExitSignal', used -> 'ExitSignal'
            )
        END
    )
    || fetchwork.memory_use(used)
    -- few runs have these
    || CASE
        WHEN used ?| ARRAY['BlockReads', 'BlockWrites', 'BlockReadKbytes', 'BlockWriteKbytes']
            THEN jsonb_build_object(
                'BlockReads', fetchwork.integer_of(used -> 'BlockReads'),
                'BlockWrites', fetchwork.integer_of(used -> 'BlockWrites'),
                'BlockReadKbytes', fetchwork.integer_of(used -> 'BlockReadKbytes'),
                'BlockWriteKbytes', fetchwork.integer_of(used -> 'BlockWriteKbytes')
            )
        ELSE '{}'
    END
    || fetchwork.dag_counts(used)
    || CASE
        WHEN outcome IN ('evicted', 'vacated', 'held', 'removed') THEN jsonb_build_object(
            'LastVacateTime', extract(epoch FROM at)::bigint,
            'VacateReason', reason
        )
        ELSE '{}'
    END
);
