-- Does a checked, whole ad have policy expressions that an agent must evaluate? checked_ad has dropped
-- those that have no effect.
CREATE OR REPLACE FUNCTION fetchwork.has_policy(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ad ?| ARRAY[
    'OnExitHold', 'OnExitRemove', 'PeriodicHold', 'PeriodicRelease', 'PeriodicRemove', 'PeriodicVacate',
    'AllowedExecuteDuration', 'AllowedJobDuration', 'TimerRemove', 'LeaveJobInQueue'
];
