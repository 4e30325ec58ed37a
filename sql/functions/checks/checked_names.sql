-- The attributes that checked_job looks at, besides the size of an ad: jobs of a cluster that have the same
-- of them need be asked about only once.
CREATE OR REPLACE FUNCTION fetchwork.checked_names()
RETURNS text []
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN ARRAY[
    'Cmd', 'Iwd', 'Owner', 'JobUniverse', 'FetchWorkQueue', 'AccountingGroup', 'FetchWorkAccessPoint',
    'OtherJobRemoveRequirements',
    'CronMinute', 'CronHour', 'CronDayOfMonth', 'CronMonth', 'CronDayOfWeek',
    'WantContainer', 'WantSIF', 'WantDockerImage', 'WantSandboxImage', 'ContainerImage', 'SingularityImage',
    'FetchWorkFiles', 'WantFTOnCheckpoint', 'CheckpointDestination', 'OAuthServicesNeeded'
];
