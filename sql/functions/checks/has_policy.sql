-- Whether a checked, whole ad has policy expressions that an agent must evaluate. checked_ad has dropped
-- those without effect.
CREATE OR REPLACE FUNCTION fetchwork.has_policy(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ad ?| ARRAY[
    'OnExitHold', 'OnExitRemove', 'PeriodicHold', 'PeriodicRelease', 'PeriodicRemove', 'PeriodicVacate',
    'AllowedExecuteDuration', 'AllowedJobDuration', 'TimerRemove', 'LeaveJobInQueue'
];
