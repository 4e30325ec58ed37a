-- 0001: types, tables, constraints and indexes of the schema "fetchwork".
--
-- Apply with `fetchwork db init`, or by hand in one transaction:
--     psql -1 -v ON_ERROR_STOP=1 -f sql/install.sql
--
-- Tables are singular and hold the truth; nothing but the functions of this schema writes them. Views are plural, have HTCondor's
-- attribute names as columns, and are what people read. PostgreSQL folds unquoted names, and ClassAd names ignore case, so
-- `SELECT ClusterId, JobStatus FROM fetchwork.jobs` is right in both languages.

CREATE SCHEMA fetchwork;

COMMENT ON SCHEMA fetchwork IS 'job queue for HTCondor''s fetch-work hooks';

CREATE TABLE fetchwork.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    applied_by text NOT NULL DEFAULT session_user
);

COMMENT ON TABLE fetchwork.migration IS 'one row for each file of sql/migrations that was applied; the file itself writes it';

INSERT INTO fetchwork.migration (version, name) VALUES (1, 'base');

-- Roles ---------------------------------------------------------------------------------------------------------------------------
-- Roles belong to the whole cluster of databases, so another database may have made them already.

DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['fetchwork_admin', 'fetchwork_submitter', 'fetchwork_agent', 'fetchwork_reader'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXCEPTION
            -- unique_violation: two databases are initialised at the same moment
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$roles$;

-- Types ---------------------------------------------------------------------------------------------------------------------------

CREATE TYPE fetchwork.run_state AS ENUM (
    'reserved',  -- claimed for a slot by FETCH_WORK; -> accepted | running | ended
    'accepted',  -- REPLY_FETCH said accept: the startd is willing; -> running | ended
    'running'    -- PREPARE_JOB passed the fence: a starter lives; -> ended
);

CREATE TYPE fetchwork.run_outcome AS ENUM (
    'completed',        -- the job ended by itself
    'evicted',          -- HTCondor ended it: vacate, drain, preemption, shutdown
    'could_not_start',  -- accepted, but the starter did not get the job to run
    'rejected',         -- REPLY_FETCH said reject
    'expired',          -- the offer ran out before the startd answered
    'withdrawn',        -- the job was removed or held before it started
    'removed',          -- the job was removed while it ran
    'held',             -- the job was held while it ran
    'vacated',          -- ended because someone asked fetchwork to (vacate, preemption from the database)
    'lost'              -- starter or host fell silent
);

-- Rules that an administrator sets --------------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.setting (
    name text PRIMARY KEY,
    value numeric NOT NULL,
    unit text NOT NULL,
    meaning text NOT NULL
);

INSERT INTO fetchwork.setting (name, value, unit, meaning) VALUES
    ('max_ad_bytes', 10240, 'bytes', 'what the startd reads of a fetched ad (HTCondor''s PIPE_BUFFER_MAX)'),
    ('max_not_started', 3, 'runs', 'a job that could not start so often is held'),
    ('max_lost', 10, 'runs', 'a job whose host or starter was lost so often is held'),
    ('retry_delay', 2, 'seconds', 'first delay after a run that could not start; doubles with each'),
    ('max_retry_delay', 600, 'seconds', 'longest such delay'),
    ('refusal_rest', 10, 'seconds', 'how long a slot that refused an autocluster is not offered it; doubles with each refusal'),
    ('max_refusal_rest', 3600, 'seconds', 'longest such rest'),
    ('host_lease', 60, 'seconds', 'an agent that is silent so long has lost its runs'),
    ('priority_halflife', 86400, 'seconds', 'half-life of usage (HTCondor''s PRIORITY_HALFLIFE)'),
    ('default_prio_factor', 1000, 'factor', 'priority factor of a submitter that has none (DEFAULT_PRIO_FACTOR)'),
    ('black_hole_runs', 6, 'runs', 'a host with so many bad starts in a row, of at least two autoclusters, is taken for a black hole'),
    ('black_hole_rest', 60, 'seconds', 'first pause between the probes that a black hole is offered; doubles with each that fails'),
    ('max_black_hole_rest', 3600, 'seconds', 'longest such pause'),
    ('quick_failure', 2, 'seconds', 'a run that fails within so long counts as a bad start of its host'),
    ('history_days', 365, 'days', 'ended jobs and runs are kept so long'),
    ('event_days', 90, 'days', 'events are kept so long');

CREATE TABLE fetchwork.queue (
    name text PRIMARY KEY CONSTRAINT queue_name_is_plain CHECK (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$'),
    paused boolean NOT NULL DEFAULT false,      -- offers nothing
    draining boolean NOT NULL DEFAULT false,    -- takes no new jobs, works off what it has
    max_running integer CONSTRAINT queue_max_running_is_positive CHECK (max_running >= 0),
    -- a waiting job whose submitter's effective priority is this many times better may end a running one; null: never
    preempt_ratio double precision CONSTRAINT queue_preempt_ratio_above_one CHECK (preempt_ratio > 1),
    -- a waiting job whose JobPrio is higher by this much may end a running one of the same submitter; null: never
    preempt_prio integer CONSTRAINT queue_preempt_prio_is_positive CHECK (preempt_prio > 0)
);

INSERT INTO fetchwork.queue (name) VALUES ('default');

CREATE TABLE fetchwork.owner_grant (
    role text NOT NULL,   -- a database role, or a role it is a member of
    owner text NOT NULL,  -- an account on the execute hosts that this role may name as Owner
    PRIMARY KEY (role, owner),
    CONSTRAINT owner_grant_never_root CHECK (lower(owner) NOT IN ('root', 'toor'))
);

COMMENT ON TABLE fetchwork.owner_grant IS 'who may submit jobs as which Owner, and see and change the jobs of that Owner';

CREATE TABLE fetchwork.attribute (
    key text PRIMARY KEY,   -- the name in lower case
    name text NOT NULL,     -- as HTCondor writes it
    rule text NOT NULL CONSTRAINT attribute_rule_is_known CHECK (rule IN (
        'plain',       -- goes to the starter
        'kept',        -- matching and policy: stays here, is not printed for the starter
        'ours',        -- set by fetchwork; dropped at submit, since HTCondor's own submit writes it too
        'forbidden',   -- set by fetchwork; refused at submit
        'unhonoured'   -- fetched work does not do it: refused at submit unless it has the harmless value
    )),
    harmless jsonb,         -- for unhonoured: values that ask for nothing
    note text,              -- for unhonoured: why, in the message
    CONSTRAINT attribute_key_is_name CHECK (key = lower(name))
);

COMMENT ON TABLE fetchwork.attribute IS 'job attributes that submit treats specially, with their spelling';

CREATE TABLE fetchwork.significant_attribute (
    key text PRIMARY KEY CONSTRAINT significant_attribute_is_lower CHECK (key = lower(key))
);

COMMENT ON TABLE fetchwork.significant_attribute IS
    'job attributes that slots refer to (START, Rank): part of every autocluster, as SIGNIFICANT_ATTRIBUTES is for a schedd';

-- Who gets what -----------------------------------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.submitter (
    name text PRIMARY KEY,                      -- accounting group, or else the owner
    prio_factor double precision CONSTRAINT submitter_factor_is_at_least_one CHECK (prio_factor >= 1),
    usage double precision NOT NULL DEFAULT 0,  -- weighted slot seconds, decayed to usage_at
    usage_at timestamptz NOT NULL DEFAULT now(),
    total_usage double precision NOT NULL DEFAULT 0,
    max_running integer CONSTRAINT submitter_max_running_is_positive CHECK (max_running >= 0)
);

CREATE TABLE fetchwork.concurrency_limit (
    name text PRIMARY KEY CONSTRAINT concurrency_limit_is_lower CHECK (name = lower(name)),
    maximum double precision NOT NULL CONSTRAINT concurrency_limit_is_positive CHECK (maximum >= 0)
);

CREATE TABLE fetchwork.autocluster (
    autocluster_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    signature uuid NOT NULL,                    -- md5 of what follows
    queue text NOT NULL REFERENCES fetchwork.queue (name),
    owner text NOT NULL,
    submitter text NOT NULL REFERENCES fetchwork.submitter (name),
    -- null: an expression, which only a slot's ad can tell
    request_cpus double precision,
    request_memory_mib double precision,
    request_disk_kib double precision,
    request_gpus double precision,
    concurrency_limits text,
    ad jsonb NOT NULL                           -- all that matching looks at
);

-- Not unique: a submitter with the first such job must not wait for another's long transaction that has one too; two equal rows do no harm
CREATE INDEX autocluster_signature ON fetchwork.autocluster (signature, autocluster_id);

COMMENT ON TABLE fetchwork.autocluster IS 'distinct sets of what matching looks at; rows never change';

-- Jobs ----------------------------------------------------------------------------------------------------------------------------------

CREATE SEQUENCE fetchwork.cluster_id AS integer;
CREATE SEQUENCE fetchwork.run_id;
-- positions only grow; a cache would hand out old ones late and let a claimer's hint step over them
CREATE SEQUENCE fetchwork.position;

CREATE TABLE fetchwork.cluster (
    cluster_id integer PRIMARY KEY DEFAULT nextval('fetchwork.cluster_id'),
    ad jsonb NOT NULL,                          -- what the ads of its jobs have in common
    submitted_by text NOT NULL,                 -- database role
    submitted_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE fetchwork.batch (
    batch_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    name text NOT NULL,
    UNIQUE (owner, name)
);

-- Live runs. Narrow, and written by every claim.
CREATE TABLE fetchwork.run (
    run_id bigint PRIMARY KEY DEFAULT nextval('fetchwork.run_id'),
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    autocluster_id integer NOT NULL,
    host_id integer NOT NULL,
    state fetchwork.run_state NOT NULL DEFAULT 'reserved',
    -- JobStatus of its job: a run may outlive its job's being Held or Removed for as long as it takes to end
    job_status smallint NOT NULL DEFAULT 1,
    weight real NOT NULL DEFAULT 1,             -- what a second of it costs its submitter (SlotWeight)
    token uuid NOT NULL DEFAULT gen_random_uuid(),
    slot text NOT NULL,                         -- slot name; the dynamic slot's from the start on
    lease interval NOT NULL,                    -- any contact renews the deadline by so much
    deadline timestamptz NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    accepted_at timestamptz,
    started_at timestamptz,
    contact_at timestamptz,
    starter text,                               -- identity of the starter that passed the fence: pid and start time
    job_pid integer,
    end_requested text CONSTRAINT run_end_requested_is_known CHECK (end_requested IN ('remove', 'hold', 'vacate')),
    end_reason text,
    signalled_at timestamptz,                   -- when a hook was first told to end the job
    usage jsonb,                                -- last report of UPDATE_JOB_INFO
    CONSTRAINT run_one_live_run_per_job UNIQUE (cluster_id, proc_id),
    CONSTRAINT run_started_if_running CHECK ((state = 'running') = (started_at IS NOT NULL)),
    CONSTRAINT run_status_fits_state CHECK (state = 'running' OR job_status IN (1, 3, 5))
);

CREATE INDEX run_slot ON fetchwork.run (host_id, slot);

CREATE TABLE fetchwork.job (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL CONSTRAINT job_proc_id_not_negative CHECK (proc_id >= 0),
    job_status smallint NOT NULL DEFAULT 1 CONSTRAINT job_status_is_htcondors CHECK (job_status IN (1, 2, 3, 5, 7)),
    has_policy boolean NOT NULL DEFAULT false,  -- has policy expressions: someone must evaluate them
    job_prio integer NOT NULL DEFAULT 0,
    autocluster_id integer NOT NULL REFERENCES fetchwork.autocluster (autocluster_id),
    batch_id integer REFERENCES fetchwork.batch (batch_id),
    position bigint,                            -- where it last waited
    run_id bigint,                              -- the run that passed the fence, while it lives
    q_date timestamptz NOT NULL DEFAULT now(),
    status_at timestamptz NOT NULL DEFAULT now(),
    not_before timestamptz,                     -- an Idle job with this set does not wait in the queue yet
    first_start_at timestamptz,
    last_start_at timestamptz,
    num_starts integer NOT NULL DEFAULT 0,
    num_completions integer NOT NULL DEFAULT 0,
    num_holds integer NOT NULL DEFAULT 0,
    num_not_started integer NOT NULL DEFAULT 0, -- in a row
    num_evicted integer NOT NULL DEFAULT 0,
    num_lost integer NOT NULL DEFAULT 0,
    wall_s double precision NOT NULL DEFAULT 0, -- of ended runs
    user_cpu_s double precision NOT NULL DEFAULT 0,
    sys_cpu_s double precision NOT NULL DEFAULT 0,
    owner text NOT NULL,
    queue text NOT NULL,
    hold_reason text,
    hold_code integer,
    hold_subcode integer,
    last_reason text,                           -- why it is where it is: last eviction, removal, failed start
    ad jsonb NOT NULL,                          -- what differs from cluster.ad
    PRIMARY KEY (cluster_id, proc_id),
    FOREIGN KEY (cluster_id) REFERENCES fetchwork.cluster (cluster_id),
    -- Running or Suspended means that a run which passed the fence is alive
    CONSTRAINT job_running_has_run CHECK (job_status NOT IN (2, 7) OR run_id IS NOT NULL),
    CONSTRAINT job_run_is_live FOREIGN KEY (run_id) REFERENCES fetchwork.run (run_id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT job_held_has_reason CHECK ((job_status = 5) = (hold_reason IS NOT NULL AND hold_code IS NOT NULL)),
    CONSTRAINT job_not_before_only_idle CHECK (not_before IS NULL OR job_status = 1)
);

CREATE INDEX job_run ON fetchwork.job (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX job_owner ON fetchwork.job (owner);
CREATE INDEX job_not_before ON fetchwork.job (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX job_batch ON fetchwork.job (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX job_held ON fetchwork.job (owner) WHERE job_status = 5;
CREATE INDEX job_policy ON fetchwork.job (cluster_id, proc_id) WHERE has_policy;

-- What the claim reads: one narrow row for each job that may be claimed now. A claim deletes it and touches no row of "job".
CREATE TABLE fetchwork.waiting (
    autocluster_id integer NOT NULL,
    job_prio integer NOT NULL,
    position bigint NOT NULL,
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    PRIMARY KEY (autocluster_id, job_prio, position)
);

-- Which (autocluster, priority) has rows in "waiting", so that asking costs the number of autoclusters and not of jobs. A row may be
-- there with nothing waiting (the claimer that finds that deletes it), or twice (two submitters at once), never the other way
-- round: see functions/matching/ensure_demand.sql.
CREATE TABLE fetchwork.demand (
    autocluster_id integer NOT NULL REFERENCES fetchwork.autocluster (autocluster_id),
    job_prio integer NOT NULL
);

CREATE INDEX demand_autocluster ON fetchwork.demand (autocluster_id, job_prio);

-- Counts as changes, folded now and then: writers of equal jobs never wait for each other, and nobody counts a million
-- rows. What is Running is counted from the live runs, which are as few as the slots; a claim changes no count.
CREATE TABLE fetchwork.tally_change (
    autocluster_id integer NOT NULL,
    batch_id integer,
    jobs integer NOT NULL DEFAULT 0,            -- rows of "job"
    held integer NOT NULL DEFAULT 0,            -- of them Held
    completed integer NOT NULL DEFAULT 0,
    removed integer NOT NULL DEFAULT 0,
    usage double precision NOT NULL DEFAULT 0   -- weighted slot seconds of runs that ended
);

CREATE TABLE fetchwork.tally (
    autocluster_id integer NOT NULL,
    batch_id integer NOT NULL,                  -- 0: none
    jobs bigint NOT NULL,
    held bigint NOT NULL,
    completed bigint NOT NULL,
    removed bigint NOT NULL,
    PRIMARY KEY (autocluster_id, batch_id)
);

-- Hosts and slots -----------------------------------------------------------------------------------------------------------------------

CREATE TABLE fetchwork.host (
    host_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    agent_version text,                         -- null: direct mode only
    agent_id uuid,                              -- the agent process that holds the lease
    lease interval,                             -- as its agent wants it; null: setting host_lease
    lease_until timestamptz,                    -- null: no agent, so no lease of the host; its runs have their own
    seen_at timestamptz NOT NULL DEFAULT now(),
    bad_starts integer NOT NULL DEFAULT 0,      -- in a row
    bad_autoclusters integer[] NOT NULL DEFAULT '{}',
    bad_reason text,
    black_hole_since timestamptz,
    probes integer NOT NULL DEFAULT 0,          -- failed since then
    next_probe_at timestamptz
);

CREATE TABLE fetchwork.slot (
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    name text NOT NULL,
    state text,
    activity text,
    slot_type text,
    cpus double precision,
    memory_mib double precision,
    disk_kib double precision,
    gpus double precision,
    last_fetch_at timestamptz NOT NULL DEFAULT now(),
    last_answer text,
    queues text[],                              -- which it draws from, in this order; null: not told
    ad jsonb,                                   -- the slot ad as FETCH_WORK brought it
    PRIMARY KEY (host_id, name)
);

CREATE TABLE fetchwork.slot_rest (
    host_id integer NOT NULL REFERENCES fetchwork.host (host_id) ON DELETE CASCADE,
    slot text NOT NULL,
    autocluster_id integer NOT NULL,
    refusals integer NOT NULL DEFAULT 1,
    rest_until timestamptz NOT NULL,
    PRIMARY KEY (host_id, slot, autocluster_id)
);

COMMENT ON TABLE fetchwork.slot_rest IS 'pairs that the startd refused: the slot is not offered that autocluster for a while';

-- What was -------------------------------------------------------------------------------------------------------------------------------
-- Partitioned by time; functions/maintenance/maintain_tables.sql makes partitions ahead and drops old ones. The default partition catches what no
-- partition was made for, so that a database whose maintenance stopped goes on working.

CREATE TABLE fetchwork.run_history (
    run_id bigint NOT NULL,
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    autocluster_id integer NOT NULL,
    host_id integer NOT NULL,
    state fetchwork.run_state NOT NULL,         -- how far it came
    outcome fetchwork.run_outcome NOT NULL,
    reason text,
    weight real NOT NULL,
    token uuid NOT NULL,
    slot text NOT NULL,
    claimed_at timestamptz NOT NULL,
    accepted_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz NOT NULL DEFAULT now(),
    starter text,
    job_pid integer,
    usage jsonb,
    report jsonb,                               -- what JOB_EXIT told
    late_report jsonb,                          -- what it told after the run had been given up; changed nothing
    output jsonb                                -- the end of the job's stdout and stderr, where the job asked for it
) PARTITION BY RANGE (ended_at);

CREATE TABLE fetchwork.run_history_default PARTITION OF fetchwork.run_history DEFAULT;

CREATE INDEX run_history_run ON fetchwork.run_history (run_id);
CREATE INDEX run_history_job ON fetchwork.run_history (cluster_id, proc_id);

CREATE TABLE fetchwork.job_history (
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    job_status smallint NOT NULL CONSTRAINT job_history_status_is_final CHECK (job_status IN (3, 4)),
    job_prio integer NOT NULL,
    autocluster_id integer NOT NULL,
    batch_id integer,
    run_id bigint,                              -- the last one that started
    q_date timestamptz NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT now(),
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
    exit_by_signal boolean,
    exit_code integer,
    exit_signal integer,
    slot text,
    owner text NOT NULL,
    queue text NOT NULL,
    last_reason text,
    ad jsonb NOT NULL
) PARTITION BY RANGE (completed_at);

CREATE TABLE fetchwork.job_history_default PARTITION OF fetchwork.job_history DEFAULT;

CREATE INDEX job_history_job ON fetchwork.job_history (cluster_id, proc_id);
CREATE INDEX job_history_owner ON fetchwork.job_history (owner, completed_at);
CREATE INDEX job_history_at ON fetchwork.job_history (completed_at);

-- Readers follow (xid, event_id): identities are given before commit, so "event_id > last" would step over a slower transaction.
-- They read only below the oldest transaction still open, so what they have passed can't get company.
CREATE TABLE fetchwork.event (
    event_id bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_type smallint NOT NULL,               -- HTCondor's ULogEventNumber
    cluster_id integer NOT NULL,
    proc_id integer NOT NULL,
    run_id bigint,
    info jsonb                                  -- the event's own attributes, with the names of JobEventLog
) PARTITION BY RANGE (at);

CREATE TABLE fetchwork.event_default PARTITION OF fetchwork.event DEFAULT;

CREATE INDEX event_cursor ON fetchwork.event (xid, event_id);
CREATE INDEX event_job ON fetchwork.event (cluster_id, proc_id, event_id);

-- Events up to here were dropped: a reader that stands before it has missed some, and is told.
CREATE TABLE fetchwork.event_floor (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT event_floor_is_one_row CHECK (single),
    xid xid8 NOT NULL,
    event_id bigint NOT NULL
);

INSERT INTO fetchwork.event_floor (xid, event_id) VALUES ('0', 0);

-- The last time someone looked for silent hosts: after a pause of the database everyone gets a whole lease again.
CREATE TABLE fetchwork.heartbeat (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT heartbeat_is_one_row CHECK (single),
    reaped_at timestamptz NOT NULL
);

INSERT INTO fetchwork.heartbeat (reaped_at) VALUES (now());

-- What one agent does for all, and when it was done last (functions/maintenance/take_leader_task.sql).
CREATE TABLE fetchwork.leader_task (
    name text PRIMARY KEY,
    taken_at timestamptz NOT NULL
);

-- Autovacuum ------------------------------------------------------------------------------------------------------------------------------
-- The claim walks the head of "waiting", where dead rows gather: vacuum after a fixed number of them, not a share of the table.
ALTER TABLE fetchwork.waiting SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- every run is a row that comes and goes; updates of its state stay on its page
ALTER TABLE fetchwork.run SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- emptied by every fold
ALTER TABLE fetchwork.tally_change SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- few rows, rewritten all the time
ALTER TABLE fetchwork.demand SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE fetchwork.tally SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE fetchwork.host SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE fetchwork.slot SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- a job's status changes a few times in its life, in place
ALTER TABLE fetchwork.job SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
