-- Does a checked, whole ad have policy expressions that someone must evaluate? checked_ad has dropped those that say nothing.
CREATE OR REPLACE FUNCTION fetchwork.has_policy(ad jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ad ?| ARRAY[
    'OnExitHold', 'OnExitRemove', 'PeriodicHold', 'PeriodicRelease', 'PeriodicRemove', 'PeriodicVacate',
    'AllowedExecuteDuration', 'AllowedJobDuration', 'TimerRemove'
];
