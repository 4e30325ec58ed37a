-- The first time at which a job with a DeferralTime may be offered, and the time at which it is too late.
-- NULL if DeferralTime is an expression: then its Requirements decide at each match, and its starter. As in
-- HTCondor the job is offered DeferralPrepTime seconds before (300 by default), plus the setting
-- schedd_interval, which HTCondor's submit puts into Requirements; and its starter waits.
CREATE OR REPLACE FUNCTION fetchwork.deferral(ad jsonb, OUT offered_at timestamptz, OUT late_at timestamptz)
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    at double precision := fetchwork.number_of(ad -> 'DeferralTime');
    window_s double precision := fetchwork.number_of(coalesce(ad -> 'DeferralWindow', '0'));
    prep_s double precision := fetchwork.number_of(coalesce(ad -> 'DeferralPrepTime', '300'));
BEGIN
    IF at IS NULL OR at > 253402300799 THEN
        RETURN;
    END IF;
    offered_at := to_timestamp(greatest(at - prep_s - fetchwork.setting_value('schedd_interval'), 0));
    late_at := to_timestamp(least(at + window_s + 1, 253402300799));
END
$$;
