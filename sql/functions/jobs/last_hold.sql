-- The LastHold attributes of a job that was Held, for its release and its removal; empty for other jobs.
CREATE OR REPLACE FUNCTION fetchwork.last_hold(
    job_status integer,
    hold_reason text,
    hold_code integer,
    hold_subcode integer
)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN job_status = 5 THEN jsonb_build_object(
        'LastHoldReason', hold_reason,
        'LastHoldReasonCode', hold_code,
        'LastHoldReasonSubCode', coalesce(hold_subcode, 0)
    )
    ELSE '{}'
END;
