-- The LastHold attributes of a job that was Held; empty for other jobs. Not IMMUTABLE, as bytes_moved.
CREATE OR REPLACE FUNCTION fetchwork.last_hold(
    job_status integer,
    hold_reason text,
    hold_code integer,
    hold_subcode integer
)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN CASE
    WHEN job_status = 5 THEN jsonb_build_object(
        'LastHoldReason', hold_reason,
        'LastHoldReasonCode', hold_code,
        'LastHoldReasonSubCode', coalesce(hold_subcode, 0)
    )
    ELSE '{}'
END;
