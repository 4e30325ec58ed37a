-- The schema "fetchwork": roles, types, tables, constraints and indexes, with the rows that come with them.
--
-- Apply with `fetchwork db init`, or by hand in one transaction:
--     psql -1 -v ON_ERROR_STOP=1 -f sql/install.sql
--
-- Tables are singular and hold the truth; only the functions of this schema write them. Views are plural,
-- have HTCondor's attribute names as columns, and are what people read. PostgreSQL folds unquoted names, and
-- ClassAd names ignore case, so `SELECT ClusterId, JobStatus FROM fetchwork.jobs` is right in both languages.
--
-- In this order: the schema and its versions, roles, types; what an administrator decides; job attributes;
-- who gets what (submitters, autoclusters); hosts and slots; jobs, runs and the queue; counts; history;
-- events; maintenance. Then how the busy tables are vacuumed.

CREATE SCHEMA fetchwork;

COMMENT ON SCHEMA fetchwork IS 'job queue for HTCondor''s fetch-work hooks';

CREATE TABLE fetchwork.migration (
    version integer PRIMARY KEY,                -- number of the file
    name text NOT NULL,                         -- the rest of its name
    applied_at timestamptz NOT NULL DEFAULT now(),
    applied_by text NOT NULL DEFAULT session_user
);

COMMENT ON TABLE fetchwork.migration IS
    'one row for each file of sql/migrations that was applied; the file itself writes it';

INSERT INTO fetchwork.migration (version, name)
VALUES (1, 'base');

-- Roles -----------------------------------------------------------------------------------------------------
-- sql/grants.sql says what each may do. Roles belong to the whole cluster of databases, so another database
-- may have made them already.

DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY[
        'fetchwork_admin', 'fetchwork_submitter', 'fetchwork_agent', 'fetchwork_reader',
        'fetchwork_access_point', 'fetchwork_joined_point', 'fetchwork_host', 'fetchwork_invited'
    ] LOOP
        -- if an administrator has made the roles, no right to make roles is needed
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = wanted);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXCEPTION
            -- unique_violation: two databases are initialised at the same moment
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$roles$;

-- Types -----------------------------------------------------------------------------------------------------
-- JobStatus stays HTCondor's number (1 Idle, 2 Running, 3 Removed, 4 Completed, 5 Held, 7 Suspended), because
-- people compare it in constraints. HTCondor has no number for the state of a run.

-- The state of a live run. An ended run keeps the last state, and has an outcome.
CREATE TYPE fetchwork.run_state AS ENUM (
    'reserved',         -- claimed for a slot by FETCH_WORK                      -> accepted | running | ended
    'accepted',         -- REPLY_FETCH said accept: the startd is willing        -> running | ended
    'running'           -- PREPARE_JOB passed the fence (start): a starter lives -> ended
);

-- The end of a run. It is final: the job's next run is another run.
CREATE TYPE fetchwork.run_outcome AS ENUM (
    'completed',        -- running -> the job ended by itself
    'evicted',          -- running -> HTCondor ended it: vacate, drain, preemption, shutdown
    'could_not_start',  -- reserved | accepted -> the starter did not get the job to run
    'rejected',         -- reserved | accepted -> REPLY_FETCH said reject
    'expired',          -- reserved -> the offer ran out before the startd answered
    'withdrawn',        -- any state -> the job was removed, held or vacated before it started
    'removed',          -- running -> the job was removed while it ran
    'held',             -- running -> the job was held while it ran
    'vacated',          -- running -> fetchwork was asked to end it (vacate, preemption from the database)
    'lost'              -- running -> starter or host fell silent
);

-- Decisions of an administrator -----------------------------------------------------------------------------

CREATE TABLE fetchwork.setting (
    name text PRIMARY KEY,
    value numeric NOT NULL,
    unit text NOT NULL,                         -- for people, and for the largest value of a time
    meaning text NOT NULL                       -- for people
);

COMMENT ON TABLE fetchwork.setting IS 'numbers that hold for the whole pool; functions read them at each use';

INSERT INTO fetchwork.setting (name, value, unit, meaning)
VALUES
    ('max_ad_bytes', 65536, 'bytes',
        'bytes that each host reads of a fetched ad (host.pipe_buffer_max, HTCondor''s PIPE_BUFFER_MAX)'),
    ('max_jobs_per_owner', 100000, 'jobs',
        'so many jobs may an owner have in the queue (HTCondor''s MAX_JOBS_PER_OWNER)'),
    ('max_jobs_per_submission', 20000, 'jobs',
        'so many jobs may a cluster be submitted with (HTCondor''s MAX_JOBS_PER_SUBMISSION)'),
    ('max_idle_per_submitter', 0, 'jobs',
        'so many idle jobs may a submitter have in the queue; 0: any number (fetchwork prio --max-idle)'),
    ('max_autoclusters_per_submitter', 0, 'autoclusters',
        'autoclusters that a submitter''s jobs in the queue may have; 0: any number (--max-autoclusters)'),
    ('open_accounting_groups', 0, '0 or 1',
        '1: every role may charge every accounting group, as in HTCondor; 0: those that were granted to it'),
    ('max_reserved_clusters', 1000, 'ids',
        'so many cluster ids may a role have reserved and not used'),
    ('cluster_reservation', 3600, 'seconds',
        'a reserved cluster id that was not used is lost so long after'),
    ('submission_days', 7, 'days',
        'so long a submission that is repeated with its key is known as the first one'),
    ('max_attribute_bytes', 1048576, 'bytes',
        'longest attribute of a job that is submitted'),
    ('max_job_bytes', 4194304, 'bytes',
        'largest ad that is submitted, with what is not printed for the startd'),
    ('max_not_started', 3, 'runs',
        'a job is held after so many runs that could not start for an unknown reason'),
    ('max_lost', 10, 'runs',
        'a job is held after so many runs that lost their host or starter'),
    ('retry_delay', 2, 'seconds',
        'first delay after a run that could not start; doubles with each'),
    ('max_retry_delay', 600, 'seconds',
        'longest such delay'),
    ('schedd_interval', 60, 'seconds',
        'a job with a deferral time is offered so long before its preparation time (SCHEDD_INTERVAL)'),
    ('refusal_rest', 10, 'seconds',
        'backoff of a slot from an autocluster that it refused; it doubles with each refusal'),
    ('max_refusal_rest', 3600, 'seconds',
        'longest such backoff'),
    ('host_identity', 86400, 'seconds',
        'so long is the identity of a host that joined valid; its agent renews it after two thirds of that'),
    ('require_join', 0, '0 or 1',
        '1: only hosts that joined by an invitation are served (`fetchwork host require-join`)'),
    ('host_lease', 60, 'seconds',
        'the runs of an agent that is silent for so long are given up'),
    ('priority_halflife', 86400, 'seconds',
        'half-life of usage (HTCondor''s PRIORITY_HALFLIFE)'),
    ('default_prio_factor', 1000, 'factor',
        'priority factor of a submitter that has none (DEFAULT_PRIO_FACTOR)'),
    ('black_hole_runs', 6, 'runs',
        'a host with so many bad starts in a row, of several owners, is taken for a black hole'),
    ('black_hole_rest', 60, 'seconds',
        'first pause between the probes that a black hole is offered; doubles with each that fails'),
    ('max_black_hole_rest', 3600, 'seconds',
        'longest such pause'),
    ('quick_failure', 2, 'seconds',
        'a run that fails within so long counts as a bad start of its host'),
    ('history_days', 365, 'days',
        'time for which ended jobs and runs are kept'),
    ('event_days', 90, 'days',
        'time for which events are kept'),
    ('max_file_bytes', 17179869184, 'bytes',
        'largest file that travels through the queue, as an input or an output'),
    ('max_job_file_bytes', 68719476736, 'bytes',
        'so much may the input files of a job have together, and its output files'),
    ('max_owner_file_bytes', 274877906944, 'bytes',
        'so much may the files of an owner''s jobs have together'),
    ('max_all_file_bytes', 1099511627776, 'bytes',
        'so much may the files of all jobs have together'),
    ('output_days', 10, 'days',
        'time for which undelivered output files are kept'),
    ('bring_wait', 259200, 'seconds',
        'a job whose access point has not brought its output files for so long is held'),
    ('left_days', 10, 'days',
        'longest time for which leave_in_queue keeps an ended job in the queue'),
    ('unused_content', 86400, 'seconds',
        'contents that no job names go so long after they were begun'),
    ('max_credentials', 100, 'credentials',
        'so many credentials may an owner have stored'),
    ('forget_after', 86400, 'seconds',
        'autoclusters and batches without jobs, and submitters without usage, are forgotten so long after');

CREATE TABLE fetchwork.queue (
    -- FetchWorkQueue of its jobs
    name text PRIMARY KEY CONSTRAINT queue_name_is_plain CHECK (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$'),
    paused boolean NOT NULL DEFAULT false,      -- offers nothing
    draining boolean NOT NULL DEFAULT false,    -- takes no new jobs, works off what it has
    -- so many live runs at once; null: no maximum
    max_running integer CONSTRAINT queue_max_running_is_positive CHECK (max_running >= 0),
    -- a waiting job whose submitter's effective priority is this many times better may end a running one;
    -- null: never
    preempt_ratio double precision CONSTRAINT queue_preempt_ratio_above_one CHECK (preempt_ratio > 1),
    -- a waiting job whose JobPrio is higher by this much may end a running one of the same submitter; null:
    -- never
    preempt_prio integer CONSTRAINT queue_preempt_prio_is_positive CHECK (preempt_prio > 0)
);

COMMENT ON TABLE fetchwork.queue IS 'queues; a slot draws from those that its hook keyword names';

INSERT INTO fetchwork.queue (name)
VALUES ('default');

CREATE TABLE fetchwork.concurrency_limit (
    name text PRIMARY KEY CONSTRAINT concurrency_limit_is_lower CHECK (name = lower(name)),
    -- the sum that all live runs which name it may take
    maximum double precision NOT NULL CONSTRAINT concurrency_limit_is_positive CHECK (maximum >= 0)
);

COMMENT ON TABLE fetchwork.concurrency_limit IS '<NAME>_LIMIT in HTCondor; a name without a row is unlimited';

CREATE TABLE fetchwork.start_limit (
    -- "name" is that of a concurrency limit (in lower case), a queue or an owner
    scope text NOT NULL CONSTRAINT start_limit_scope_is_known CHECK (scope IN ('limit', 'queue', 'owner')),
    name text NOT NULL,
    starts integer NOT NULL CONSTRAINT start_limit_allows_some CHECK (starts BETWEEN 1 AND 1000000),
    -- so many starts in each such time; a month at most
    seconds double precision NOT NULL CONSTRAINT start_limit_seconds_are_few CHECK (
        seconds > 0 AND seconds <= 2678400
    ),
    PRIMARY KEY (scope, name)
);

COMMENT ON TABLE fetchwork.start_limit IS 'limits on starts; without a row, jobs start at any rate';

CREATE TABLE fetchwork.start_token (
    scope text NOT NULL,
    name text NOT NULL,
    number bigint NOT NULL,                     -- counts the starts under this limit, without gaps
    at timestamptz NOT NULL,                    -- claimed_at of the run that spent it
    PRIMARY KEY (scope, name, number),
    FOREIGN KEY (scope, name) REFERENCES fetchwork.start_limit ON DELETE CASCADE
);

COMMENT ON TABLE fetchwork.start_token IS
    'the last starts under each limit on starts, as many as it allows: the oldest of them says when the next '
    'start may be';

CREATE TABLE fetchwork.accounting_group (
    name text PRIMARY KEY CONSTRAINT accounting_group_name_is_plain CHECK (
        name ~ '^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*){0,9}$'
    ),
    -- the group above it, the name up to the last dot; null: HTCondor's root, "<none>"
    parent text REFERENCES fetchwork.accounting_group (name),
    quota double precision CONSTRAINT accounting_group_quota_is_positive CHECK (quota >= 0),
    -- of the parent's quota that is left by quotas of its other groups
    dynamic_quota double precision CONSTRAINT accounting_group_dynamic_quota_is_part CHECK (
        dynamic_quota BETWEEN 0 AND 1
    ),
    accept_surplus boolean NOT NULL DEFAULT false,
    autoregroup boolean NOT NULL DEFAULT false,
    -- of its submitters without one of their own; null: the setting default_prio_factor
    prio_factor double precision CONSTRAINT accounting_group_factor_is_at_least_one CHECK (prio_factor >= 1),
    managers text [] NOT NULL DEFAULT '{}',     -- roles that may set the groups below it
    CONSTRAINT accounting_group_has_one_quota CHECK (num_nonnulls(quota, dynamic_quota) = 1)
);

COMMENT ON TABLE fetchwork.accounting_group IS
    'accounting groups with quotas: GROUP_NAMES, GROUP_QUOTA_<name>, GROUP_QUOTA_DYNAMIC_<name>, ...';

-- ClassAd names ignore case, and so do the names of groups.
CREATE UNIQUE INDEX accounting_group_key ON fetchwork.accounting_group (lower(name));

CREATE TABLE fetchwork.group_count (
    name text PRIMARY KEY,                      -- "<none>": the submitters without a group
    subtree_quota double precision NOT NULL,    -- its quota, in weighted slots (SlotWeight)
    quota double precision NOT NULL,            -- the part of it for its own submitters
    in_use double precision NOT NULL,           -- by its own submitters
    subtree_in_use double precision NOT NULL,
    requested double precision NOT NULL,        -- in use and by idle jobs of its own submitters
    counted_at timestamptz NOT NULL
);

COMMENT ON TABLE fetchwork.group_count IS
    'quotas and use of the groups, counted at most once a second; empty if there is no group';

CREATE TABLE fetchwork.group_grant (
    role text NOT NULL,                         -- a database role, or a role it is a member of
    accounting_group text NOT NULL,             -- that its jobs may be charged to
    PRIMARY KEY (role, accounting_group)
);

COMMENT ON TABLE fetchwork.group_grant IS 'roles, and the AccountingGroups that they may charge';

CREATE TABLE fetchwork.owner_grant (
    role text NOT NULL,                         -- a database role, or a role it is a member of
    owner text NOT NULL,                        -- an account of the execute hosts that it may name as Owner
    PRIMARY KEY (role, owner),
    CONSTRAINT owner_grant_never_root CHECK (lower(owner) NOT IN ('root', 'toor'))
);

COMMENT ON TABLE fetchwork.owner_grant IS
    'roles, and the Owners as whom they may submit jobs, and whose jobs they see and change';

-- Job attributes --------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.attribute (
    key text PRIMARY KEY,                       -- the name in lower case: ClassAd names ignore case
    name text NOT NULL,                         -- as HTCondor writes it
    rule text NOT NULL CONSTRAINT attribute_rule_is_known CHECK (rule IN (
        'plain',                                -- goes to the starter
        'kept',                                 -- matching and policy: is not printed for the starter
        'ours',                                 -- set by fetchwork; dropped at submit
        'forbidden',                            -- set by fetchwork; refused at submit
        'unhonoured'                            -- fetched work does not do it: refused unless harmless
    )),
    harmless jsonb,                             -- for unhonoured: values that ask for nothing
    note text,                                  -- for unhonoured: why, in the message
    CONSTRAINT attribute_key_is_name CHECK (key = lower(name))
);

COMMENT ON TABLE fetchwork.attribute IS
    'job attributes that submit treats specially, in their usual spelling; others go to the starter as is';

-- Go to the starter; listed for their spelling.
INSERT INTO fetchwork.attribute (key, name, rule)
SELECT lower(a.name), a.name, 'plain'
FROM unnest(ARRAY[
    -- what runs
    'JobUniverse', 'Owner', 'Cmd', 'Args', 'Arguments', 'Env', 'Environment', 'Iwd', 'RemoteIwd', 'In', 'Out',
    'Err', 'JobDescription', 'MATCH_EXP_JobDescription', 'GridResource', 'EC2RemoteVirtualMachineName',
    -- its requests
    'RequestCpus', 'RequestMemory', 'RequestDisk', 'RequestGPUs', 'CoreSize',
    -- when it starts, and how it ends
    'DeferralTime', 'DeferralWindow', 'DeferralPrepTime', 'KillSig', 'RemoveKillSig', 'HoldKillSig',
    'KillSigTimeout', 'JobMaxVacateTime', 'WantGracefulRemoval',
    -- containers, which the starter makes
    'WantContainer', 'WantSIF', 'WantDockerImage', 'WantSandboxImage', 'ContainerImage', 'ContainerTargetDir',
    'SingularityImage',
    -- self-checkpointing: the starter starts the job again, what it saved is kept
    'WantFTOnCheckpoint', 'SuccessCheckpointExitCode', 'SuccessCheckpointExitBySignal',
    'SuccessCheckpointExitSignal',
    -- reports about it
    'FetchWorkTailBytes',
    -- attributes that condor_q reads of each job
    'DAG_NodesTotal', 'DAG_NodesDone', 'DAG_NodesQueued', 'JobMaterializeNextProcId'
]) AS a (name);

-- Stay here: the starter gets an ad of limited size, and has no use for them.
INSERT INTO fetchwork.attribute (key, name, rule)
SELECT lower(a.name), a.name, 'kept'
FROM unnest(ARRAY[
    -- matching
    'Requirements', 'Rank', 'ConcurrencyLimits', 'DiskUsage', 'ExecutableSize', 'FileSystemDomain',
    -- order and share
    'FetchWorkQueue', 'JobPrio', 'AcctGroup', 'AcctGroupUser', 'AccountingGroup', 'JobBatchName',
    -- policy
    'OnExitHold', 'OnExitHoldReason', 'OnExitHoldSubCode', 'OnExitRemove', 'OnExitRemoveReason',
    'PeriodicHold', 'PeriodicHoldReason', 'PeriodicHoldSubCode', 'PeriodicRelease', 'PeriodicReleaseReason',
    'PeriodicRemove', 'PeriodicRemoveReason', 'PeriodicVacate', 'TimerRemove', 'AllowedExecuteDuration',
    'AllowedJobDuration', 'LeaveJobInQueue',
    -- its requests after it used too much
    'TransformOnEvict', 'TransformBody_RequestMemory', 'RetryRequestMemory', 'RetryRequestMemoryIndex',
    'NextRequestMemory', 'MaxRequestMemory',
    -- when it starts
    'CronMinute', 'CronHour', 'CronDayOfMonth', 'CronMonth', 'CronDayOfWeek', 'FetchWorkTimeZone',
    -- retries
    'JobMaxRetries', 'SuccessExitCode', 'JobSuccessExitCode', 'FetchWorkRetryDelay', 'FetchWorkMaxRetryDelay',
    -- file transfer, which the hooks do
    'ShouldTransferFiles', 'WhenToTransferOutput', 'TransferExecutable', 'TransferIn', 'TransferOut',
    'TransferErr', 'TransferInput', 'TransferOutput', 'TransferOutputRemaps', 'TransferPlugins',
    'OutputDestination', 'PublicInputFiles', 'PreserveRelativePaths', 'MaxTransferInputMB',
    'MaxTransferOutputMB', 'FailureFiles', 'FetchWorkFiles', 'TransferCheckpoint', 'CheckpointDestination',
    'EC2AccessKeyId', 'EC2SecretAccessKey', 'AWSRegion', 'TransferContainer',
    -- its trace: the job has it in its environment
    'TraceParent',
    -- the credentials that PREPARE_JOB brings
    'OAuthServicesNeeded', 'FetchWorkOAuthRequests',
    -- the access point that it was submitted to, event logs and DAGs
    'FetchWorkAccessPoint',
    'UserLog', 'UserLogUseXML', 'SubmitEventNotes', 'SubmitEventUserNotes', 'DAGNodeName',
    'DAGParentNodeNames', 'DAGManJobId', 'DAGManNodesLog', 'DAGManNodesMask', 'OtherJobRemoveRequirements'
]) AS a (name);

-- Dropped at submit: fetchwork sets them where they mean something, and HTCondor's submit writes them into
-- every ad.
INSERT INTO fetchwork.attribute (key, name, rule)
SELECT lower(a.name), a.name, 'ours'
FROM unnest(ARRAY[
    -- identity
    'User', 'OsUser', 'ClusterId', 'ProcId', 'GlobalJobId', 'MyType', 'TargetType', 'CondorVersion',
    'CondorPlatform', 'JobSubmitMethod', 'JobSubmitFile', 'AutoClusterId', 'ServerTime', 'TotalSubmitProcs',
    -- status
    'JobStatus', 'LastJobStatus', 'QDate', 'EnteredCurrentStatus', 'CompletionDate', 'HoldReason',
    'HoldReasonCode', 'HoldReasonSubCode', 'ReleaseReason', 'RemoveReason', 'LastHoldReason',
    'LastHoldReasonCode', 'LastHoldReasonSubCode', 'LastVacateTime', 'VacateReason', 'VacateReasonCode',
    'VacateReasonSubCode',
    -- counts
    'NumCkpts', 'CheckpointNumber', 'LastCkptTime',
    'NumRestarts', 'NumJobStarts', 'NumJobCompletions', 'NumShadowStarts', 'NumSystemHolds',
    'NumHolds', 'NumHoldsByReason', 'NumJobMatches', 'JobRunCount', 'CurrentHosts', 'TotalSuspensions',
    -- use
    'CpusProvisioned', 'MemoryProvisioned', 'DiskProvisioned', 'GPUsProvisioned',
    'BlockReads', 'BlockWrites', 'BlockReadKbytes', 'BlockWriteKbytes', 'BytesSent', 'BytesRecvd',
    'ImageSize', 'MemoryUsage', 'ResidentSetSize', 'RemoteSysCpu', 'RemoteUserCpu', 'RemoteWallClockTime',
    'LastRemoteWallClockTime', 'CommittedTime',
    'CommittedSlotTime', 'CommittedSuspensionTime', 'CumulativeSlotTime', 'CumulativeRemoteSysCpu',
    'CumulativeRemoteUserCpu', 'CumulativeSuspensionTime', 'LastSuspensionTime',
    -- runs
    'JobStartDate', 'JobCurrentStartDate', 'JobFinishedHookDone', 'JobLeaseDuration', 'LastMatchTime',
    'LastMatchListLength', 'ScheddInterval', 'RemoteHost', 'LastRemoteHost', 'RemoteSlotID', 'ExitBySignal',
    'ExitCode', 'ExitSignal', 'ExitStatus', 'ToE', 'ShadowBday', 'TransferQueued', 'TransferringInput',
    'TransferringOutput',
    -- attributes of files and of the standard universe that submit writes
    'TransferInputSizeMB', 'WantTransferPluginMethods', 'StreamIn', 'StreamOut', 'StreamErr', 'NotifyUser',
    'WantRemoteIO', 'WantRemoteSyscalls', 'WantCheckpoint', 'BufferSize', 'BufferBlockSize',
    'ContainerImageSource', 'ContainerImageFullPath',
    -- hints to a schedd, which are harmless without one: mail, and the time for which it keeps a claim
    'JobNotification', 'EmailAttributes', 'KeepClaimIdle'
]) AS a (name);

-- Refused at submit: they would make a job pass for a run, or for another hook's.
INSERT INTO fetchwork.attribute (key, name, rule)
SELECT lower(a.name), a.name, 'forbidden'
FROM unnest(ARRAY[
    -- of the claim and the run
    'HookKeyword', 'ClaimId', 'StarterUserLog', 'StarterUserLogUseXML',
    'FetchWorkRunId', 'FetchWorkToken', 'FetchWorkHost', 'FetchWorkHasPolicy', 'FetchWorkKillDate'
]) AS a (name);

-- Refused at submit unless the value asks for nothing, so that no job runs otherwise than its ad says. The
-- note is the reason that the submitter reads.
INSERT INTO fetchwork.attribute (key, name, rule, harmless, note)
SELECT lower(a.name), a.name, 'unhonoured', r.harmless::jsonb, r.note
FROM (
    VALUES
        ('HTCondor''s starter gives a fetched docker job no limits and takes a failing image for its end: '
            'use container_image = docker://IMAGE', '[false]',
            ARRAY['WantDocker']),
        ('HTCondor''s starter gives a fetched docker job no limits and takes a failing image for its end: '
            'use container_image = docker://IMAGE', '[]',
            ARRAY['DockerImage', 'ContainerServiceNames', 'DockerNetworkType']),
        ('fetchwork transfers files as transfer_input_files and transfer_output_files say', '[""]',
            ARRAY['TransferInputRemaps']),
        ('fetchwork transfers files as transfer_input_files and transfer_output_files say', '[false]',
            ARRAY['ManifestDesired']),
        ('fetchwork transfers files as transfer_input_files and transfer_output_files say', '[]',
            ARRAY['FileRemaps', 'BufferFiles', 'FetchFiles', 'CompressFiles', 'AppendFiles', 'LocalFiles',
            'DontEncryptInputFiles', 'DontEncryptOutputFiles', 'EncryptInputFiles',
            'EncryptOutputFiles', 'ManifestDir']),
        ('the starter of fetched work truncates the files at each start', '[true]',
            ARRAY['EraseOutputAndErrorOnRestart']),
        ('fetched work has no shadow to talk to (chirp)', '[false]',
            ARRAY['WantIOProxy']),
        ('HTCondor has not looked at it since 8.9.8: use checkpoint_exit_code', '[]',
            ARRAY['CheckpointExitCode', 'CheckpointExitSignal', 'CheckpointExitBySignal']),
        ('there is no credential to send with fetched work', '[""]',
            ARRAY['X509UserProxy', 'x509userproxysubject', 'SendCredential', 'ScitokensFile']),
        ('HTCondor 25 ignores it for fetched work', '[""]',
            ARRAY['PreCmd', 'PreArguments', 'PreArgs', 'PreEnvironment', 'PostCmd', 'PostArguments',
            'PostArgs', 'PostEnvironment']),
        ('the starter of fetched work does not do it', '[false]',
            ARRAY['EncryptExecuteDirectory', 'JobStarterDebug', 'SkipIfDataflow', 'WantJobNetworking',
            'RunAsOwner', 'LoadProfile']),
        ('the starter of fetched work does not do it', '[""]',
            ARRAY['JobStarterLog', 'RequestedChroot', 'MountUnderScratch', 'OutputDirectory']),
        ('the starter of fetched work does not do it', '[]',
            ARRAY['JarFiles', 'ToolDaemonCmd', 'PrimaryUnixGroup']),
        ('the starter of fetched work ignores it', '[0]',
            ARRAY['JobNice']),
        ('there is no schedd that would wait', '[0]',
            ARRAY['NextJobStartDelay']),
        ('there is no schedd that would record it', '[""]',
            ARRAY['JobMachineAttrs', 'JobAdInformationAttrs', 'UserLogExecuteEventAttrs']),
        ('a fetched job runs in one slot', '[0, 1]',
            ARRAY['MinHosts', 'MaxHosts']),
        ('the job would run all the same', '[false]',
            ARRAY['IsNoopJob']),
        ('use JobPrio, or an accounting group with a large priority factor', '[false]',
            ARRAY['NiceUser']),
        ('use JobBatchName', '[]',
            ARRAY['JobSetName']),
        ('only a submit description makes a cluster whose jobs come later', '[]',
            ARRAY['JobMaterializeLimit', 'JobMaterializeMaxIdle', 'JobMaterializeDigestFile'])
) AS r (note, harmless, names)
CROSS JOIN LATERAL unnest(r.names) AS a (name);


-- Shares and matching ---------------------------------------------------------------------------------------

CREATE TABLE fetchwork.submitter (
    name text PRIMARY KEY,                      -- accounting group, or else the owner
    -- the factor of its use (condor_userprio -setfactor); null: the setting default_prio_factor
    prio_factor double precision CONSTRAINT submitter_factor_is_at_least_one CHECK (prio_factor >= 1),
    usage double precision NOT NULL DEFAULT 0,  -- weighted slot seconds of ended runs, decayed to usage_at
    usage_at timestamptz NOT NULL DEFAULT now(),
    total_usage double precision NOT NULL DEFAULT 0,  -- the same, never decayed
    -- so many live runs at once; null: no maximum
    max_running integer CONSTRAINT submitter_max_running_is_positive CHECK (max_running >= 0),
    -- ceilings (check_ceilings); null: those of the settings; 0: no ceiling
    max_idle integer CONSTRAINT submitter_max_idle_is_positive CHECK (max_idle >= 0),
    max_autoclusters integer CONSTRAINT submitter_max_autoclusters_is_positive CHECK (max_autoclusters >= 0)
);

COMMENT ON TABLE fetchwork.submitter IS
    'submitters that are charged for runs, and their use; a new one gets its row when changes are folded, so '
    'that no submission waits for another''s';

CREATE INDEX submitter_ceilings ON fetchwork.submitter (name) WHERE max_idle > 0 OR max_autoclusters > 0;

CREATE TABLE fetchwork.autocluster (
    autocluster_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    signature uuid NOT NULL,                    -- md5 of queue, submitter and ad, to find an equal row
    queue text NOT NULL REFERENCES fetchwork.queue (name),
    access_point text,                          -- runs its jobs (scheduler universe); null: slots do
    owner text NOT NULL,                        -- the account that its jobs run as
    submitter text NOT NULL,                    -- charged for its runs; its row may come later
    -- SQL compares these with a slot before the agent evaluates anything. Null: an expression, which only a
    -- slot's ad can answer.
    request_cpus double precision,
    request_memory_mib double precision,
    request_disk_kib double precision,
    request_gpus double precision,
    concurrency_limits text,                    -- ConcurrencyLimits in lower case; null: none
    ad jsonb NOT NULL                           -- all that matching looks at
);

COMMENT ON TABLE fetchwork.autocluster IS
    'distinct sets of the attributes that matching uses; rows never change, so agents keep them for ever';

-- Not unique: a submitter with the first such job must not wait for another's long transaction that has one
-- too; two equal rows do no harm.
CREATE INDEX autocluster_signature ON fetchwork.autocluster (signature, autocluster_id);
CREATE INDEX autocluster_submitter ON fetchwork.autocluster (submitter);
CREATE INDEX autocluster_access_point ON fetchwork.autocluster (access_point) WHERE access_point IS NOT NULL;

-- Hosts and slots -------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.host (
    host_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,                  -- as its agent calls itself
    -- no execute host, but an access point with the jobs of the scheduler universe that it runs
    access_point boolean NOT NULL DEFAULT false,
    agent_version text,                         -- null: an access point
    signals_jobs boolean NOT NULL DEFAULT false,  -- its agent may stop its jobs and let them go on
    agent_id uuid,                              -- the agent process that holds the lease
    agent_location text,                        -- its location by its own word, and its address
    lease interval,                             -- as its agent wants it; null: setting host_lease
    lease_until timestamptz,                    -- null: no agent, so no lease; its runs have their own
    settled_at timestamptz,                     -- its last beat of which the database knew every run
    seen_at timestamptz NOT NULL DEFAULT now(),
    -- Its luck with the jobs that it starts (note_start): a black hole is a host that fails them all at
    -- once.
    bad_starts integer NOT NULL DEFAULT 0,      -- in a row
    bad_since timestamptz,                      -- when the first of them was noticed
    bad_reason text,                            -- of the last one
    black_hole_since timestamptz,               -- null: it is not taken for one
    -- single jobs, of owners whose jobs failed here, that failed since then; and when the next may start
    probes integer NOT NULL DEFAULT 0,
    next_probe_at timestamptz,
    -- the same of owners whose jobs have not failed here
    newcomer_probes integer NOT NULL DEFAULT 0,
    newcomer_probe_at timestamptz
);

COMMENT ON TABLE fetchwork.host IS 'execute hosts that ever asked for work';

-- numbers of the login roles that are made for invitations and hosts
CREATE SEQUENCE fetchwork.login_number AS integer;

CREATE TABLE fetchwork.invitation (
    number integer PRIMARY KEY,
    role name NOT NULL UNIQUE,                  -- that a host logs in as, to join
    hosts text NOT NULL,                        -- pattern of their names, with * and ?
    queues text [],                             -- that they serve; null: all
    uses integer NOT NULL,                      -- so many hosts may join
    used integer NOT NULL DEFAULT 0,
    max_slots integer,                          -- so many live runs, and Cpus, may each have; null: any
    trusted boolean NOT NULL,                   -- they do tasks that show the jobs of other hosts
    owners text,                                -- pattern of accounts of an access point; null: a host's
    ephemeral boolean NOT NULL,                 -- they are forgotten an hour after their last beat
    valid_until timestamptz NOT NULL,
    invited_by text NOT NULL,
    invited_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz                        -- no host joins by it any more
);

COMMENT ON TABLE fetchwork.invitation IS 'by which hosts join, and what those that joined by it may do';

CREATE TABLE fetchwork.host_identity (
    host_id integer PRIMARY KEY REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    role name NOT NULL UNIQUE,                  -- that its agent logs in as
    invitation integer NOT NULL REFERENCES fetchwork.invitation (number),
    generation integer NOT NULL DEFAULT 1,      -- counts its passwords
    verifier bytea NOT NULL,                    -- SHA-256 of the SCRAM verifier of the present one
    joined_at timestamptz NOT NULL DEFAULT now(),
    renewed_at timestamptz,
    valid_until timestamptz NOT NULL,
    readmitted boolean NOT NULL DEFAULT false,  -- its next renewal counts under any generation
    copied_at timestamptz,                      -- when two hosts were found to have it
    revoked_at timestamptz,
    -- the public key of X25519 to which credentials are sealed for this host; null: it has registered none
    credential_key bytea CONSTRAINT host_key_is_x25519 CHECK (octet_length(credential_key) = 32)
);

COMMENT ON TABLE fetchwork.host_identity IS 'hosts that joined by an invitation: each has a role of its own';

CREATE INDEX host_identity_invitation ON fetchwork.host_identity (invitation);

CREATE TABLE fetchwork.failing_owner (
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    owner text NOT NULL,
    bad_jobs text [] NOT NULL,                  -- jobs with a bad start since the owner's last good run there
    bad_autoclusters integer [] NOT NULL,       -- of them two at most
    last_bad_at timestamptz NOT NULL,
    blamed_until timestamptz,                   -- before that their bad starts say nothing of the host
    rests integer NOT NULL DEFAULT 0,           -- in a row; each doubles the rest
    rest_until timestamptz,                     -- before that the host is not offered the owner's jobs
    PRIMARY KEY (host_id, owner)
);

COMMENT ON TABLE fetchwork.failing_owner IS
    'owners whose jobs failed on a host, one after the other, with no good run of theirs there since';

CREATE TABLE fetchwork.slot (
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    name text NOT NULL,                         -- Name of its ad
    state text,                                 -- State, Activity and SlotType of its ad
    activity text,
    slot_type text,
    cpus double precision,                      -- its resources, as preempt compares them
    memory_mib double precision,
    disk_kib double precision,
    gpus double precision,
    last_fetch_at timestamptz NOT NULL DEFAULT now(),
    last_answer text,                           -- the answer to that fetch
    reported_at timestamptz NOT NULL DEFAULT now(),  -- by its agent, also while it is busy
    queues text [],                             -- its queues, in this order; null: not reported
    -- its SlotWeight, with all resources of a partitionable slot, as the quotas of groups count the pool
    weight double precision NOT NULL DEFAULT 1,
    ad jsonb,                                   -- as FETCH_WORK brought it, without the startd's secrets
    PRIMARY KEY (host_id, name)
);

COMMENT ON TABLE fetchwork.slot IS 'reports of slots; people read them, and preempt';

CREATE TABLE fetchwork.slot_rest (
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    slot text NOT NULL,
    autocluster_id integer NOT NULL,
    refusals integer NOT NULL DEFAULT 1,        -- in a row; each doubles the rest
    rest_until timestamptz NOT NULL,
    PRIMARY KEY (host_id, slot, autocluster_id)
);

COMMENT ON TABLE fetchwork.slot_rest IS
    'pairs that the startd refused: the slot is not offered that autocluster for a while';

CREATE TABLE fetchwork.autocluster_fault (
    autocluster_id integer NOT NULL REFERENCES fetchwork.autocluster (autocluster_id) ON DELETE CASCADE,
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    reason text NOT NULL,
    rest_until timestamptz NOT NULL,            -- the host does not look at it before
    PRIMARY KEY (autocluster_id, host_id)
);

COMMENT ON TABLE fetchwork.autocluster_fault IS
    'autoclusters whose evaluation a host had to end; two hosts that agree get their jobs held';

CREATE TABLE fetchwork.action (
    action_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    action text NOT NULL,                       -- the SQL function: hold, edit, set_queue
    role text NOT NULL,                         -- the database role that called it
    person text,                                -- the account that the role acted for
    program text,                               -- application_name of its session
    owner text,                                 -- of the jobs; null: no jobs
    jobs integer,
    subject text,                               -- the first jobs, or the name of what was set
    details text                                -- a reason, or the changes
);

COMMENT ON TABLE fetchwork.action IS 'actions of people; a submission is a row of cluster';

CREATE TABLE fetchwork.person_token (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,                        -- it gives the rights of this account alone
    digest bytea NOT NULL UNIQUE,               -- SHA-256 of the token, which has 256 random bits
    read_only boolean NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_until timestamptz NOT NULL,
    revoked_at timestamptz
);

COMMENT ON TABLE fetchwork.person_token IS 'tokens with which people sign in at the page and the API';

CREATE INDEX person_token_owner ON fetchwork.person_token (owner);

-- Jobs, runs and the queue ----------------------------------------------------------------------------------
-- A job's ad is stored once a cluster and in the job only where it differs. Columns hold the changing
-- parts. A job waits in "waiting", runs by a row of "run", and moves to "job_history" when it has ended.

-- After its end it begins anew: functions/jobs/next_cluster.sql steps over what is in use.
CREATE SEQUENCE fetchwork.cluster_id AS integer CYCLE;
CREATE SEQUENCE fetchwork.run_id;
-- Positions only grow; a cache would hand out old ones late, and a claimer's hint would step over them.
CREATE SEQUENCE fetchwork.position;
-- The last value: a hash of the server for which ids were skipped (functions/maintenance/skip_ids.sql).
CREATE SEQUENCE fetchwork.ids_server;

CREATE TABLE fetchwork.cluster (
    cluster_id integer PRIMARY KEY,
    ad jsonb NOT NULL,                          -- the common part of its jobs' ads
    procs integer NOT NULL DEFAULT 0,           -- jobs at its submission (TotalSubmitProcs)
    submitted_by text NOT NULL,                 -- database role, and the account that it acted for
    submitted_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE fetchwork.cluster IS 'one submission; kept while a job of it is in queue or history';

-- the nodes of a DAG, to remove them with it (functions/scheduler/remove_others.sql)
CREATE INDEX cluster_nodes_log ON fetchwork.cluster ((ad ->> 'DAGManNodesLog')) WHERE ad ? 'DAGManNodesLog';
CREATE INDEX cluster_scheduler ON fetchwork.cluster (cluster_id) WHERE ad -> 'JobUniverse' = '7';
CREATE INDEX cluster_dag ON fetchwork.cluster ((ad -> 'DAGManJobId')) WHERE ad ? 'DAGManJobId';

CREATE TABLE fetchwork.cluster_reservation (
    cluster_id integer PRIMARY KEY,
    role text NOT NULL,                         -- reserved it, and alone may use it
    reserved_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE fetchwork.cluster_reservation IS 'ids from reserve_cluster that no cluster has yet';

CREATE INDEX cluster_reservation_role ON fetchwork.cluster_reservation (role, reserved_at);

CREATE TABLE fetchwork.submission (
    owner text NOT NULL,
    key text NOT NULL,                          -- chosen by who submitted
    cluster_id integer NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, key)
);

COMMENT ON TABLE fetchwork.submission IS 'keys of submissions, by which one that is repeated is known';

CREATE TABLE fetchwork.batch (
    batch_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    name text NOT NULL,                         -- JobBatchName
    UNIQUE (owner, name)
);

COMMENT ON TABLE fetchwork.batch IS 'named batches, so that counts have a short key';

CREATE TABLE fetchwork.run (
    run_id bigint PRIMARY KEY DEFAULT nextval('fetchwork.run_id'),
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    autocluster_id integer NOT NULL,            -- its job's: limits and shares are counted from runs alone
    host_id integer NOT NULL,
    state fetchwork.run_state NOT NULL DEFAULT 'reserved',
    -- JobStatus of its job: a run may outlive its job's being Held or Removed for as long as it takes to end
    job_status smallint NOT NULL DEFAULT 1,
    weight real NOT NULL DEFAULT 1,             -- cost of a second of it (SlotWeight)
    token uuid NOT NULL DEFAULT gen_random_uuid(),  -- its holder may report for the run; no view shows it
    slot text NOT NULL,                         -- slot name; the dynamic slot's from the start on
    lease interval NOT NULL,                    -- any contact moves the deadline so far ahead
    deadline timestamptz NOT NULL,              -- for the offer, then for a sign of life; then it is given up
    -- the clock: a transaction can have begun before the end of the job's last run
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_at timestamptz,
    started_at timestamptz,
    contact_at timestamptz,                     -- when a hook last reported
    starter text,                               -- the starter that passed the fence: pid and start time
    chain bigint,                               -- the first run of its chain, of a run that next_runs started
    job_pid integer,
    end_requested text CONSTRAINT run_end_requested_is_known CHECK (
        end_requested IN ('remove', 'hold', 'vacate')
    ),
    end_reason text,                            -- of that request
    signalled_at timestamptz,                   -- when a hook first learned that the job has to end
    -- a person wants it stopped, or to go on and its host has not reported that yet
    suspension text CONSTRAINT run_suspension_is_known CHECK (suspension IN ('suspend', 'continue')),
    suspended_at timestamptz,                   -- since when its job is Suspended
    suspended_s double precision NOT NULL DEFAULT 0,  -- seconds of its suspensions that are over
    usage jsonb,                                -- last report of UPDATE_JOB_INFO
    -- its files are moved now; while outputs are, the slot is free for another run
    transferring text CONSTRAINT run_transferring_is_known CHECK (transferring IN ('input', 'output')),
    transfer jsonb,                             -- bytes and seconds of what was moved: note_transfer
    -- the directory of its credentials on the host, and their versions there: note_credentials
    credentials jsonb,
    CONSTRAINT run_one_live_run_per_job UNIQUE (cluster_id, proc_id),
    CONSTRAINT run_started_if_running CHECK ((state = 'running') = (started_at IS NOT NULL)),
    CONSTRAINT run_status_fits_state CHECK (state = 'running' OR job_status IN (1, 3, 5))
);

COMMENT ON TABLE fetchwork.run IS 'live runs: narrow, written by every claim; ended ones are in run_history';

CREATE INDEX run_slot ON fetchwork.run (host_id, slot);

-- Unlogged, as output_chunk: after a crash each watcher asks again.
CREATE UNLOGGED TABLE fetchwork.output_watch (
    run_id bigint PRIMARY KEY,                  -- the run may have ended
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    owner text NOT NULL,
    host_id integer NOT NULL,
    token uuid NOT NULL,                        -- the run's
    watched_until timestamptz NOT NULL,
    ended boolean NOT NULL DEFAULT false,       -- nothing more will be shipped
    problem text                                -- why nothing is shipped
);

COMMENT ON TABLE fetchwork.output_watch IS 'runs whose output is watched';

CREATE UNLOGGED TABLE fetchwork.output_chunk (
    run_id bigint NOT NULL,
    stream smallint NOT NULL CONSTRAINT output_chunk_stream_is_known CHECK (stream IN (1, 2)),
    starts_at bigint NOT NULL,                  -- position of its first byte in the file
    content bytea NOT NULL CONSTRAINT output_chunk_is_short CHECK (octet_length(content) <= 65536),
    PRIMARY KEY (run_id, stream, starts_at)
);

COMMENT ON TABLE fetchwork.output_chunk IS 'the latest output of running jobs that are watched';

CREATE TABLE fetchwork.job (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL CONSTRAINT job_proc_id_not_negative CHECK (proc_id >= 0),
    job_status smallint NOT NULL DEFAULT 1
        CONSTRAINT job_status_is_htcondors CHECK (job_status IN (1, 2, 3, 4, 5, 6, 7)),
    has_policy boolean NOT NULL DEFAULT false,  -- has policy expressions: an agent must evaluate them
    job_prio integer NOT NULL DEFAULT 0,
    -- no foreign keys: to check them costs a submission as much as all else, and each start a look at the
    -- runs, by a plan that was made when there were few. The transaction that adds a row here holds
    -- these with KEY SHARE, or made them; forget and maintain_tables look here before they delete one.
    autocluster_id integer NOT NULL,
    batch_id integer,
    position bigint,                            -- its last position, to find its row of "waiting"
    run_id bigint,                              -- the run that passed the fence, while it lives
    q_date timestamptz NOT NULL DEFAULT now(),
    status_at timestamptz NOT NULL DEFAULT now(),  -- EnteredCurrentStatus
    not_before timestamptz,                     -- an Idle job with this set does not wait in the queue yet
    late_at timestamptz,                        -- cron schedule: a job that waits then is too late
    first_start_at timestamptz,
    last_start_at timestamptz,
    num_starts integer NOT NULL DEFAULT 0,
    num_completions integer NOT NULL DEFAULT 0,
    num_holds integer NOT NULL DEFAULT 0,
    num_not_started integer NOT NULL DEFAULT 0,  -- in a row; at max_not_started it is held
    num_evicted integer NOT NULL DEFAULT 0,
    num_lost integer NOT NULL DEFAULT 0,        -- since its last release; at max_lost it is held
    wall_s double precision NOT NULL DEFAULT 0,  -- of ended runs, and so the next two
    user_cpu_s double precision NOT NULL DEFAULT 0,
    sys_cpu_s double precision NOT NULL DEFAULT 0,
    owner text NOT NULL,                        -- here and not only in the ad: every view asks for it
    queue text NOT NULL,
    hold_reason text,
    hold_code integer,
    hold_subcode integer,
    last_reason text,                           -- why it is where it is: last eviction, removal, failed start
    -- attributes that came of its life and that no function reads: last hold, release, run, vacate
    facts jsonb NOT NULL DEFAULT '{}',
    ad jsonb NOT NULL,                          -- its difference from cluster.ad
    PRIMARY KEY (cluster_id, proc_id),
    -- Running or Suspended means that a run which passed the fence is alive
    CONSTRAINT job_running_has_run CHECK (job_status NOT IN (2, 7) OR run_id IS NOT NULL),
    CONSTRAINT job_held_has_reason
        CHECK ((job_status = 5) = (hold_reason IS NOT NULL AND hold_code IS NOT NULL)),
    CONSTRAINT job_not_before_only_idle CHECK (not_before IS NULL OR job_status = 1)
);

COMMENT ON TABLE fetchwork.job IS
    'jobs in the queue; a job that has ended is in job_history, unless its leave_in_queue keeps it here';

CREATE INDEX job_owner ON fetchwork.job (owner);
CREATE INDEX job_not_before ON fetchwork.job (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX job_late ON fetchwork.job (late_at) WHERE late_at IS NOT NULL;
CREATE INDEX job_batch ON fetchwork.job (batch_id) WHERE batch_id IS NOT NULL;
-- the jobs that people ask for are not the many that wait
CREATE INDEX job_not_idle ON fetchwork.job (job_status, owner) WHERE job_status <> 1;
-- ended jobs that stay for a while
CREATE INDEX job_left ON fetchwork.job (status_at) WHERE job_status = 4;
CREATE INDEX job_policy ON fetchwork.job (cluster_id, proc_id) WHERE has_policy;

CREATE TABLE fetchwork.waiting (
    autocluster_id integer NOT NULL,
    job_prio integer NOT NULL,
    position bigint NOT NULL,                   -- the order in which they are claimed
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    PRIMARY KEY (autocluster_id, job_prio, position)
);

COMMENT ON TABLE fetchwork.waiting IS
    'one narrow row for each job that may be claimed now; a claim deletes it and touches no row of "job"';

-- Late materialization: the jobs of such a cluster are made when they are needed, by fetchwork.materialize.
CREATE TABLE fetchwork.factory (
    cluster_id integer PRIMARY KEY,
    owner text NOT NULL,
    -- JobMaterializePaused; 0: no; -1: its jobs can't be made; 1: held; 2: all are made; 3: removed
    paused smallint NOT NULL DEFAULT 0 CONSTRAINT factory_paused_is_htcondors CHECK (paused BETWEEN -1 AND 3),
    reason text,                                -- of a pause
    jobs integer NOT NULL CONSTRAINT factory_has_jobs CHECK (jobs > 0),  -- when all are made
    step integer NOT NULL CONSTRAINT factory_step_is_positive CHECK (step > 0),  -- jobs of each item
    -- format() makes of it a job's own part of the ad; its arguments: Process, Step, ItemIndex, and each
    -- variable of the item, as text and as a value; null: the jobs have no own part
    template text,
    variables integer NOT NULL,                 -- of an item; 0: no items
    rows integer NOT NULL DEFAULT 0,            -- items in factory_item
    part_bytes bigint NOT NULL DEFAULT 0,       -- a job's own part is no longer
    on_hold boolean NOT NULL,
    submit_host text NOT NULL,                  -- of the events of its jobs
    edits jsonb NOT NULL DEFAULT '{}',          -- of edit(), for the jobs that are not made yet
    next_proc integer NOT NULL DEFAULT 0,       -- JobMaterializeNextProcId
    low_proc integer NOT NULL DEFAULT 0,        -- no job below it is in the queue
    max_materialize integer,                    -- null: any number
    max_idle integer CONSTRAINT factory_max_idle_not_negative CHECK (max_idle >= 0),
    -- a job from here on makes others when it starts, or leaves the queue; null: no job does
    start_mark integer,
    end_mark integer,
    is_full boolean NOT NULL DEFAULT false,     -- the owner may have no more jobs in the queue
    looked_at timestamptz NOT NULL DEFAULT clock_timestamp()  -- by materialize_due
);

COMMENT ON TABLE fetchwork.factory IS
    'clusters whose jobs are made when they are needed; a row goes with the last job of its cluster';

CREATE INDEX factory_owner ON fetchwork.factory (owner);
CREATE INDEX factory_looked ON fetchwork.factory (looked_at);

CREATE TABLE fetchwork.factory_item (
    cluster_id integer NOT NULL REFERENCES fetchwork.factory (cluster_id) ON DELETE CASCADE,
    first_row integer NOT NULL,                 -- index of the first item of this chunk, from 0
    items jsonb NOT NULL,                       -- at most 500: for each the arguments of format()
    PRIMARY KEY (cluster_id, first_row)
);

COMMENT ON TABLE fetchwork.factory_item IS 'the items of the queue statements of factories, in chunks';

-- So that asking what waits costs the number of autoclusters and not of jobs. A row may be there with nothing
-- waiting (the claimer that finds that deletes it), or twice (two submitters at once), never the other way
-- round: see functions/matching/ensure_demand.sql.
CREATE TABLE fetchwork.demand (
    autocluster_id integer NOT NULL REFERENCES fetchwork.autocluster (autocluster_id),
    job_prio integer NOT NULL,
    -- the transaction that announced it: who has read the demand asks only for what came since
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);

COMMENT ON TABLE fetchwork.demand IS 'autoclusters and priorities that have rows in "waiting"';

CREATE INDEX demand_autocluster ON fetchwork.demand (autocluster_id, job_prio);
CREATE INDEX demand_xid ON fetchwork.demand (xid);

-- Files -----------------------------------------------------------------------------------------------------
CREATE TABLE fetchwork.bucket (
    bucket_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url text NOT NULL UNIQUE,                   -- as it was given
    origin text NOT NULL,                       -- "https://HOST:PORT"
    path text NOT NULL,                         -- with what its objects' names begin, encoded
    region text NOT NULL,
    access_key_id text NOT NULL,
    secret text NOT NULL,
    above bigint NOT NULL,                      -- bytes
    used boolean NOT NULL                       -- for new contents; those of others go with their jobs
);

COMMENT ON TABLE fetchwork.bucket IS
    'buckets for large contents; no role reads their keys: content_url signs';

CREATE UNIQUE INDEX bucket_used ON fetchwork.bucket (used) WHERE used;

CREATE TABLE fetchwork.object_over (
    bucket_id integer NOT NULL REFERENCES fetchwork.bucket (bucket_id),
    object uuid NOT NULL,
    n integer NOT NULL,
    over_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (object, n)
);

COMMENT ON TABLE fetchwork.object_over IS
    'objects of deleted contents: an agent deletes them when no URL is left that could make them again';

CREATE INDEX object_over_since ON fetchwork.object_over (bucket_id, over_at);

-- Files that travel with jobs (fetchwork/sandbox/FILES.md). A content belongs to one owner. A submitter's
-- contents are known by their hash among that owner's; a run's contents are its own, so an agent never waits
-- for a submitter.

CREATE TABLE fetchwork.content (
    content_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    sha256 bytea NOT NULL CONSTRAINT content_sha256_is_one CHECK (octet_length(sha256) = 32),
    size bigint NOT NULL CONSTRAINT content_size_not_negative CHECK (size >= 0),  -- bytes
    run_id bigint,                              -- that left it; null: a submitter stored it
    complete boolean NOT NULL DEFAULT false,    -- all chunks are there, and were compared
    begun_at timestamptz NOT NULL DEFAULT now(),
    bucket_id integer REFERENCES fetchwork.bucket (bucket_id),  -- that has its bytes; null: content_chunk
    object uuid NOT NULL DEFAULT gen_random_uuid()  -- its name there
);

COMMENT ON TABLE fetchwork.content IS 'contents of files; goes with the last job that names it';

-- Not unique: who stores a content must not wait for another's open transaction; two equal ones do no harm.
CREATE INDEX content_known ON fetchwork.content (owner, sha256) WHERE run_id IS NULL;
CREATE UNIQUE INDEX content_of_run ON fetchwork.content (run_id, sha256, size) WHERE run_id IS NOT NULL;
CREATE INDEX content_bucket ON fetchwork.content (bucket_id) WHERE bucket_id IS NOT NULL;
CREATE INDEX content_begun ON fetchwork.content (begun_at);

CREATE TABLE fetchwork.content_chunk (
    content_id bigint NOT NULL REFERENCES fetchwork.content (content_id) ON DELETE CASCADE,
    n integer NOT NULL,                         -- from 0; each has 1 MiB, the last one the rest
    data bytea NOT NULL,                        -- empty: part n (part_bytes) is in the bucket
    PRIMARY KEY (content_id, n)
);

COMMENT ON TABLE fetchwork.content_chunk IS 'contents in chunks of 1 MiB';

-- not compressed: most files are already, and the others are not worth the time of the server
ALTER TABLE fetchwork.content_chunk ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE fetchwork.job_file (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,                   -- -1: of all jobs of the cluster
    direction text NOT NULL CONSTRAINT job_file_direction_is_known CHECK (
        direction IN ('input', 'output', 'spool')
    ),
    run_id bigint NOT NULL,                     -- that left it; 0: an input
    owner text NOT NULL,                        -- the job's
    name text NOT NULL,                         -- in the sandbox; of a directory with "/" at its end
    permissions integer NOT NULL DEFAULT 420,   -- the bits of chmod: 0644
    size bigint NOT NULL DEFAULT 0,             -- bytes
    content_id bigint REFERENCES fetchwork.content (content_id),
    path text,                                  -- its path at submit: its source without a content
    url text,
    PRIMARY KEY (cluster_id, proc_id, direction, run_id, name)
);

COMMENT ON TABLE fetchwork.job_file IS 'the files of jobs: inputs, what runs left, and where it is';

CREATE INDEX job_file_content ON fetchwork.job_file (content_id) WHERE content_id IS NOT NULL;
CREATE INDEX job_file_output ON fetchwork.job_file (owner, cluster_id, proc_id, run_id)
WHERE direction = 'output';
CREATE INDEX job_file_spool ON fetchwork.job_file (cluster_id, proc_id, run_id) WHERE direction = 'spool';

CREATE TABLE fetchwork.job_key (
    cluster_id integer PRIMARY KEY,
    access_key_id text NOT NULL,
    secret text NOT NULL,
    session_token text                          -- of a key that is lent for a while
);

COMMENT ON TABLE fetchwork.job_key IS
    'keys for the s3:// and gs:// URLs of jobs in the queue; no role reads them: job_url signs';

CREATE TABLE fetchwork.stored_checkpoint (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    base text NOT NULL,                         -- the beginning of its files' URLs
    owner text NOT NULL,
    names text [] NOT NULL,                     -- of its files: the rest of the URLs
    access_point text,                          -- the job's, which deletes it; null: its owner does
    stored_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster_id, proc_id, base)
);

COMMENT ON TABLE fetchwork.stored_checkpoint IS
    'checkpoints that plugins have taken to URLs (checkpoint_destination), until they are deleted there';

CREATE INDEX stored_checkpoint_owner ON fetchwork.stored_checkpoint (owner, stored_at);
CREATE INDEX stored_checkpoint_access_point ON fetchwork.stored_checkpoint (access_point, owner);

CREATE TABLE fetchwork.bringing (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    access_point text NOT NULL,
    owner text NOT NULL,                        -- the job's
    run_id bigint NOT NULL,                     -- that left it; it has ended
    verdict jsonb,                              -- the decision on the job: finish
    run_s double precision NOT NULL,            -- its run time
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (cluster_id, proc_id)
);

COMMENT ON TABLE fetchwork.bringing IS
    'TransferringOutput (6), without a run: ended jobs whose outputs their access point has yet to deliver';

CREATE INDEX bringing_access_point ON fetchwork.bringing (access_point, owner, cluster_id, proc_id);
CREATE INDEX bringing_since ON fetchwork.bringing (since);

CREATE TABLE fetchwork.files_over (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL
);

COMMENT ON TABLE fetchwork.files_over IS
    'ended jobs with files: drop_files deletes those that are not needed any more';

CREATE TABLE fetchwork.content_change (
    owner text NOT NULL,
    bytes bigint NOT NULL
);

COMMENT ON TABLE fetchwork.content_change IS 'changes of content_tally that are not folded yet';

CREATE INDEX content_change_owner ON fetchwork.content_change (owner);

CREATE TABLE fetchwork.content_tally (
    owner text PRIMARY KEY,
    bytes bigint NOT NULL
);

COMMENT ON TABLE fetchwork.content_tally IS
    'bytes of contents by owner, without what is in content_change, for the limits';

-- Credentials -----------------------------------------------------------------------------------------------
-- What jobs show to services (fetchwork/credentials/CREDENTIALS.md): OAuth tokens above all. Submitters seal
-- them to the public key of the pool's hosts, so that what is here can be read on a host only.

CREATE TABLE fetchwork.credential_key (
    key_id text PRIMARY KEY                     -- of the public key: the first 16 digits of its sha256 in hex
        CONSTRAINT credential_key_id_is_plain CHECK (key_id ~ '^[0-9a-f]{16}$'),
    public_key bytea NOT NULL CONSTRAINT credential_key_is_x25519 CHECK (octet_length(public_key) = 32),
    current boolean NOT NULL DEFAULT true       -- credentials are sealed to this one now
);

COMMENT ON TABLE fetchwork.credential_key IS
    'public keys of the hosts; the private ones are in files of the hosts, and never here';

CREATE UNIQUE INDEX credential_key_current ON fetchwork.credential_key (current) WHERE current;

CREATE SEQUENCE fetchwork.credential_version;

CREATE TABLE fetchwork.credential (
    owner text NOT NULL,
    name text NOT NULL                          -- the service; with a handle SERVICE_HANDLE, as its file's
        CONSTRAINT credential_name_is_plain CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$'),
    version bigint NOT NULL DEFAULT nextval('fetchwork.credential_version'),  -- of what is sealed
    key_id text NOT NULL REFERENCES fetchwork.credential_key (key_id),
    sealed bytea NOT NULL CONSTRAINT credential_is_short CHECK (octet_length(sealed) <= 65536),
    permissions text,                           -- those it was asked for with; jobs may ask for them
    resource text,
    renewable boolean NOT NULL DEFAULT false,   -- agents ask its issuer for a new token before it expires
    expires_at timestamptz,                     -- null: not known
    stored_at timestamptz NOT NULL DEFAULT now(),
    stored_by text NOT NULL,
    renewed_at timestamptz,                     -- last by an agent
    renewing_until timestamptz,                 -- no other agent asks its issuer before
    renewing_run bigint,                        -- its agent asked last, and may store the answer after it
    renewing_token uuid,                        -- the run's
    PRIMARY KEY (owner, name)
);

CREATE INDEX credential_renewing ON fetchwork.credential (renewing_run) WHERE renewing_run IS NOT NULL;

COMMENT ON TABLE fetchwork.credential IS 'credentials by owner and name, sealed to a key of the hosts';

-- A copy of a credential for one host that joined, sealed to the key that only this host has. The host asks
-- for the copy for a run of its own (want_credentials), and a host with the pool's private key makes it.
CREATE TABLE fetchwork.host_credential (
    host_id integer NOT NULL REFERENCES fetchwork.host_identity (host_id) ON DELETE CASCADE,
    owner text NOT NULL,
    name text NOT NULL,
    wanted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- no other host is told to seal it before
    sealing_until timestamptz NOT NULL DEFAULT '-infinity',
    version bigint,                             -- of the credential that is sealed; null: not sealed yet
    sealed bytea CONSTRAINT host_credential_is_short CHECK (octet_length(sealed) <= 65536),
    PRIMARY KEY (host_id, owner, name),
    FOREIGN KEY (owner, name) REFERENCES fetchwork.credential (owner, name) ON DELETE CASCADE,
    CONSTRAINT host_credential_is_whole CHECK ((version IS NULL) = (sealed IS NULL))
);

CREATE INDEX host_credential_wanted ON fetchwork.host_credential (sealing_until, wanted_at)
WHERE sealed IS NULL;

CREATE INDEX host_credential_of ON fetchwork.host_credential (owner, name);

COMMENT ON TABLE fetchwork.host_credential IS
    'copies of credentials, each sealed to the key of one joined host';

-- Counts ----------------------------------------------------------------------------------------------------
-- Writers insert changes, and one agent folds them into counts now and then: writers of equal jobs never wait
-- for each other, and no reader counts a million rows. Running jobs are counted from the live runs, which are
-- as few as the slots; a claim changes no count.

CREATE TABLE fetchwork.tally_change (
    autocluster_id integer NOT NULL,
    batch_id integer,                           -- null: the job is in no batch
    jobs integer NOT NULL DEFAULT 0,            -- rows of "job" that have not ended
    held integer NOT NULL DEFAULT 0,            -- of them Held
    completed integer NOT NULL DEFAULT 0,       -- ended by themselves, ever
    removed integer NOT NULL DEFAULT 0,         -- ended by removal, ever
    usage double precision NOT NULL DEFAULT 0,  -- weighted slot seconds of runs that ended
    owner text                                  -- of the jobs; null: their number does not change
);

COMMENT ON TABLE fetchwork.tally_change IS 'changes of the counts and of usage that are not folded yet';

CREATE INDEX tally_change_owner ON fetchwork.tally_change (owner) WHERE owner IS NOT NULL;

CREATE TABLE fetchwork.owner_tally (
    owner text PRIMARY KEY,
    jobs bigint NOT NULL                        -- the sum of tally_change
);

COMMENT ON TABLE fetchwork.owner_tally IS
    'jobs in the queue by owner, without what is in tally_change, for max_jobs_per_owner';

CREATE TABLE fetchwork.tally (
    autocluster_id integer NOT NULL,
    batch_id integer NOT NULL,                  -- 0: none, as a key has no nulls
    jobs bigint NOT NULL,                       -- the sums of tally_change
    held bigint NOT NULL,
    completed bigint NOT NULL,
    removed bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),  -- when something was folded into it last
    PRIMARY KEY (autocluster_id, batch_id)
);

COMMENT ON TABLE fetchwork.tally IS 'jobs counted by autocluster and batch, without what is in tally_change';

CREATE TABLE fetchwork.run_count (
    -- five minutes in which they ended; a quarter of an hour if that is over two hours ago
    ended timestamptz NOT NULL,
    started timestamptz NOT NULL,               -- and in which they began; of waits: the job's first run
    owner text NOT NULL,
    queue text NOT NULL,
    runs bigint NOT NULL,                       -- that had started
    bad_runs bigint NOT NULL,                   -- of them those whose job did not end by itself
    waits integer[] NOT NULL,                   -- seconds from submission to first start, a sample
    longest_wait integer,                       -- of all
    PRIMARY KEY (ended, started, owner, queue)
);

COMMENT ON TABLE fetchwork.run_count IS 'counts of the ends of the last eight days, for charts';

CREATE TABLE fetchwork.host_count (
    host_id integer NOT NULL,                   -- its row of "host" may be gone
    at timestamptz NOT NULL,                    -- a quarter of an hour
    starts bigint NOT NULL,                     -- in it, of runs that have ended
    ends bigint NOT NULL,
    bad_ends bigint NOT NULL,                   -- of them those whose job did not end by itself
    PRIMARY KEY (host_id, at)
);

COMMENT ON TABLE fetchwork.host_count IS 'counts of each host''s runs of the last eight days, for charts';

CREATE INDEX host_count_at ON fetchwork.host_count USING brin (at);

CREATE TABLE fetchwork.counted (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT counted_is_one_row CHECK (single),
    up_to timestamptz NOT NULL DEFAULT '-infinity',
    idle_at timestamptz NOT NULL DEFAULT '-infinity'  -- the last time of idle_count
);

COMMENT ON TABLE fetchwork.counted IS 'run_count has what ended before, and nothing of what ended later';

CREATE TABLE fetchwork.idle_count (
    at timestamptz NOT NULL,                    -- each five minutes; a quarter of an hour over two hours ago
    owner text NOT NULL,
    queue text NOT NULL,
    idle bigint NOT NULL,                       -- jobs, at a moment in the five minutes after that
    PRIMARY KEY (at, owner, queue)
);

COMMENT ON TABLE fetchwork.idle_count IS 'numbers of idle jobs over the last eight days, for charts';

INSERT INTO fetchwork.counted DEFAULT VALUES;

-- History ---------------------------------------------------------------------------------------------------
-- Partitioned by time, and so are events; functions/maintenance/maintain_tables.sql makes partitions ahead
-- and drops old ones. The default partition catches what no partition was made for, so that a database whose
-- maintenance stopped goes on working.

CREATE TABLE fetchwork.run_history (
    run_id bigint NOT NULL,
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    autocluster_id integer NOT NULL,            -- its row may be gone
    owner text NOT NULL,
    host_id integer NOT NULL,                   -- its row of "host" may be gone
    state fetchwork.run_state NOT NULL,         -- its last state
    outcome fetchwork.run_outcome NOT NULL,
    reason text,                                -- in a sentence
    weight real NOT NULL,
    token uuid NOT NULL,                        -- distinguishes a late report from a forged one
    slot text NOT NULL,
    claimed_at timestamptz NOT NULL,
    accepted_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz NOT NULL DEFAULT now(),
    starter text,
    chain bigint,
    job_pid integer,
    usage jsonb,                                -- last report of UPDATE_JOB_INFO
    report jsonb,                               -- JOB_EXIT's report
    late_report jsonb,                          -- the same after the run was given up; changed nothing
    output jsonb,                               -- the end of stdout and stderr, if the job asked for it
    transfer jsonb                              -- of its files: note_transfer
) PARTITION BY RANGE (ended_at);

COMMENT ON TABLE fetchwork.run_history IS 'runs that have ended';

CREATE TABLE fetchwork.run_history_default PARTITION OF fetchwork.run_history DEFAULT;

-- rows come in the order of their ends: a few bytes for each megabyte find a minute of them
CREATE INDEX run_history_ended ON fetchwork.run_history USING brin (ended_at) WITH (
    pages_per_range = 32, autosummarize = on
);
CREATE INDEX run_history_run ON fetchwork.run_history (run_id);
CREATE INDEX run_history_job ON fetchwork.run_history (cluster_id, proc_id);
-- of one host
CREATE INDEX run_history_host ON fetchwork.run_history (host_id, ended_at);
-- the few that a person looks for first
CREATE INDEX run_history_failed ON fetchwork.run_history (ended_at)
WHERE outcome <> 'completed' OR report ->> 'ExitCode' <> '0' OR report ? 'ExitSignal';

-- Columns that "job" has too mean the same there.
CREATE TABLE fetchwork.job_history (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    job_status smallint NOT NULL CONSTRAINT job_history_status_is_final CHECK (job_status IN (3, 4)),
    job_prio integer NOT NULL,
    autocluster_id integer NOT NULL,
    batch_id integer,
    run_id bigint,                              -- the last one that started
    q_date timestamptz NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT now(),  -- when it ended, Removed or Completed
    first_start_at timestamptz,
    last_start_at timestamptz,
    num_starts integer NOT NULL,
    num_completions integer NOT NULL,
    num_holds integer NOT NULL,
    num_not_started integer NOT NULL,
    num_evicted integer NOT NULL,
    num_lost integer NOT NULL,
    wall_s double precision NOT NULL,
    user_cpu_s double precision NOT NULL,
    sys_cpu_s double precision NOT NULL,
    exit_by_signal boolean,                     -- of its last run, from JOB_EXIT, as the next two
    exit_code integer,
    exit_signal integer,
    slot text,                                  -- LastRemoteHost
    owner text NOT NULL,
    queue text NOT NULL,
    last_reason text,
    facts jsonb NOT NULL,
    ad jsonb NOT NULL
) PARTITION BY RANGE (completed_at);

COMMENT ON TABLE fetchwork.job_history IS 'jobs that have ended';

CREATE TABLE fetchwork.job_history_default PARTITION OF fetchwork.job_history DEFAULT;

CREATE TABLE fetchwork.past_owner (
    name text PRIMARY KEY,
    forgotten_at timestamptz NOT NULL           -- all jobs of theirs that ended before are in history
);

COMMENT ON TABLE fetchwork.past_owner IS
    'owners of forgotten autoclusters, as autoclusters name those of the others; written when one is '
    'forgotten, so that no submission waits for it';

CREATE INDEX job_history_job ON fetchwork.job_history (cluster_id, proc_id);
CREATE INDEX job_history_owner ON fetchwork.job_history (owner, completed_at);
CREATE INDEX job_history_at ON fetchwork.job_history (completed_at, cluster_id, proc_id);

-- To find the jobs of an event log by the log's path. Only rows that have the attribute are in them, so other
-- jobs pay nothing.
CREATE INDEX cluster_user_log ON fetchwork.cluster ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';
CREATE INDEX job_user_log ON fetchwork.job ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';
CREATE INDEX job_history_user_log ON fetchwork.job_history ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';

-- Events ----------------------------------------------------------------------------------------------------
-- An event is written in the transaction of its change, while that holds the job's row: so the numbers of a
-- job's events (event_id, from a sequence without a cache) have the order of its changes. They are given
-- before the commit, so "event_id > last" would step over the events of a slower transaction.
--
-- Readers follow (batch, event_id). functions/maintenance/sequence_events.sql gives all events that are
-- committed and have no batch the next one, under a lock; so a batch is complete when it can be seen, and no
-- event comes to stand before one that was read. No reader waits for an open transaction.
--
-- This order does not contradict a job's. Of two events of one job the second was written by a transaction
-- that got the row's lock when the first was committed. A snapshot that has the second has the first, so the
-- first is in an earlier batch, or in the same one with a smaller number.

-- Given out under the lock of sequence_events. After a restore, or a recovery to an earlier point,
-- functions/maintenance/put_events_behind.sql moves it beyond all cursors that readers may have.
CREATE SEQUENCE fetchwork.event_batch;

CREATE TABLE fetchwork.event (
    event_id bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- the transaction that wrote it; means nothing elsewhere
    batch bigint,                               -- null: not in the stream yet
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_type smallint NOT NULL,               -- HTCondor's ULogEventNumber
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    run_id bigint,                              -- null: not about a run
    info jsonb                                  -- the event's own attributes, with the names of JobEventLog
) PARTITION BY RANGE (at);

COMMENT ON TABLE fetchwork.event IS 'changes of jobs, each written in its own transaction';

CREATE TABLE fetchwork.event_default PARTITION OF fetchwork.event DEFAULT;

CREATE INDEX event_cursor ON fetchwork.event (batch, event_id) WHERE batch IS NOT NULL;
CREATE INDEX event_new ON fetchwork.event (xid) WHERE batch IS NULL;
CREATE INDEX event_job ON fetchwork.event (cluster_id, proc_id, event_id);

CREATE TABLE fetchwork.event_floor (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT event_floor_is_one_row CHECK (single),
    batch bigint NOT NULL,                      -- of the last event that was dropped
    event_id bigint NOT NULL
);

COMMENT ON TABLE fetchwork.event_floor IS
    'events up to here were dropped: a reader that stands before it has missed some, and learns so';

INSERT INTO fetchwork.event_floor (batch, event_id)
VALUES (0, 0);

-- Maintenance -----------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.heartbeat (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT heartbeat_is_one_row CHECK (single),
    reaped_at timestamptz NOT NULL,             -- after a longer pause every host gets a whole lease again
    -- As functions/maintenance/server_identity.sql has it, null before the first look for lost runs:
    server text,                                -- it wrote last; another one means a restore or a standby
    events_server text,                         -- of those whose events lie behind each other
    running_as text,                            -- functions/maintenance/running_identity.sql: known to be it
    -- After a move (functions/maintenance/note_move.sql):
    moved_at timestamptz,                       -- when it was noticed; null: never
    offers_wait boolean NOT NULL DEFAULT false, -- nothing is claimed before the hosts have said what runs
    offers_from timestamptz                     -- nor before this, for hosts that are not known here
);

COMMENT ON TABLE fetchwork.heartbeat IS 'when lost runs were last looked for, and on which server';

INSERT INTO fetchwork.heartbeat (reaped_at)
VALUES (now());

CREATE TABLE fetchwork.leader_task (
    name text PRIMARY KEY,
    taken_at timestamptz NOT NULL,
    agent_id uuid                               -- of the task 'lead': who keeps the queue in order
);

COMMENT ON TABLE fetchwork.leader_task IS 'tasks that one agent does for all, and the last time of each';

INSERT INTO fetchwork.leader_task (name, taken_at)
VALUES ('demand', '-infinity'), ('lead', '-infinity');

CREATE TABLE fetchwork.turn (
    name text PRIMARY KEY
);

COMMENT ON TABLE fetchwork.turn IS
    'work of one transaction at a time, which locks the row; no function writes it';

INSERT INTO fetchwork.turn (name)
VALUES
    ('reap'), ('fold'), ('preempt'), ('tables'), ('demand'), ('limits'), ('schema'), ('events'), ('files'),
    ('ids'), ('groups');

-- Vacuum ----------------------------------------------------------------------------------------------------

-- The claim walks the head of "waiting", where dead rows gather: vacuum after a fixed number of them, not a
-- share of the table, and without pauses.
ALTER TABLE fetchwork.waiting SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- Every run is a row that comes and goes; updates of its state stay on its page.
ALTER TABLE fetchwork.run SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
-- Emptied by every fold.
ALTER TABLE fetchwork.tally_change SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE fetchwork.content_change SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- Each start under a limit adds a row and deletes one.
ALTER TABLE fetchwork.start_token SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- Few rows, rewritten all the time.
ALTER TABLE fetchwork.group_count SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
ALTER TABLE fetchwork.demand SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);
ALTER TABLE fetchwork.tally SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
ALTER TABLE fetchwork.host SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);
ALTER TABLE fetchwork.slot SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
-- A job's status changes a few times in its life, on its page.
ALTER TABLE fetchwork.job SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02
);
