-- The attributes that checked_job reads, besides the size of an ad: jobs of a cluster with equal values need
-- only one check.
CREATE OR REPLACE FUNCTION fetchwork.checked_names()
RETURNS text []
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ARRAY[
    'Cmd', 'Iwd', 'Owner', 'JobUniverse', 'FetchWorkQueue', 'AccountingGroup', 'FetchWorkAccessPoint',
    'OtherJobRemoveRequirements',
    'CronMinute', 'CronHour', 'CronDayOfMonth', 'CronMonth', 'CronDayOfWeek',
    'WantContainer', 'WantSIF', 'WantDockerImage', 'WantSandboxImage', 'ContainerImage', 'SingularityImage',
    'FetchWorkFiles', 'WantFTOnCheckpoint', 'CheckpointDestination', 'OAuthServicesNeeded'
];
