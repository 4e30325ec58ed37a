"""The views of the pool and its settings: hosts, queues, submitters, groups, limits, credentials, ..."""

from __future__ import annotations

from fetchwork.queue.reading.views import View, epoch

_NO_AD = "'{}'::jsonb AS ad"

HOSTS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.hosts) AS hosts",  # noqa: S608 - a constant
    "Host",
    {
        "Machine": "string",
        "AgentVersion": "string",
        "Alive": "boolean",
        "LastHeardFrom": "integer",
        "Runs": "integer",
        "BadStarts": "integer",
        "BadReason": "string",
        "BlackHole": "boolean",
        "BlackHoleSince": "integer",
        "NextProbe": "integer",
        "CopiedSince": "integer",
    },
    order=("machine",),
    expressions={
        "AgentVersion": "agent_version",
        "LastHeardFrom": epoch("seen_at"),
        "BadStarts": "bad_starts",
        "BadReason": "bad_reason",
        "BlackHole": "black_hole_since_at IS NOT NULL",
        "BlackHoleSince": epoch("black_hole_since_at"),
        "NextProbe": epoch("next_probe_at"),
        "CopiedSince": epoch("copied_at"),
    },
)

_QUEUES = f"""(
    SELECT
        q.*,
        coalesce(sum(t.idle), 0)::bigint AS idlejobs,
        coalesce(sum(t.running), 0)::bigint AS runningjobs,
        coalesce(sum(t.held), 0)::bigint AS heldjobs,
        {_NO_AD}
    FROM fetchwork.queues AS q
    LEFT JOIN fetchwork.totals AS t ON t.fetchworkqueue = q.name
    GROUP BY q.name, q.paused, q.draining, q.maxrunning, q.preemptratio, q.preemptprio
) AS queues"""  # noqa: S608 - a constant

QUEUES = View(
    _QUEUES,
    "Queue",
    {
        "Name": "string",
        "Paused": "boolean",
        "Draining": "boolean",
        "MaxRunning": "integer",
        "PreemptRatio": "real",
        "PreemptPrio": "integer",
        "IdleJobs": "integer",
        "RunningJobs": "integer",
        "HeldJobs": "integer",
    },
    order=("name",),
)

# MyType as in the ads that condor_userprio reads
SUBMITTERS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.submitters) AS submitters",  # noqa: S608 - a constant
    "Accounting",
    {
        "Name": "string",
        "Priority": "real",
        "RealPriority": "real",
        "PriorityFactor": "real",
        "RunningJobs": "integer",
        "MaxRunning": "integer",
        "MaxIdle": "integer",
        "MaxAutoclusters": "integer",
        "WeightedUsage": "real",
        "AccumulatedUsage": "real",
    },
    order=("priority", "name"),
)

# the files that runs saved for their job's next run
CHECKPOINTS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.checkpoints) AS checkpoints",  # noqa: S608 - a constant
    "Job",
    {
        "ClusterId": "integer",
        "ProcId": "integer",
        "Owner": "string",
        "RunId": "integer",
        "CheckpointNumber": "integer",
        "LastCkptTime": "integer",
        "Files": "integer",
        "Bytes": "integer",
    },
    order=("clusterid", "procid", "runid"),
    expressions={"LastCkptTime": epoch("saved_at")},
)

# stored credentials, without their secrets
CREDENTIALS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.credentials) AS credentials",  # noqa: S608 - a constant
    "Credential",
    {
        "Owner": "string",
        "Name": "string",
        "Permissions": "string",
        "Resource": "string",
        "Renewable": "boolean",
        "KeyId": "string",
        "StoredAt": "integer",
        "RenewedAt": "integer",
        "ExpiresAt": "integer",
    },
    order=("owner", "name"),
    expressions={f"{what}At": epoch(f"{what.lower()}_at") for what in ("Stored", "Renewed", "Expires")},
)

LIMITS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.limits) AS limits",  # noqa: S608 - a constant
    "ConcurrencyLimit",
    {
        "Name": "string",
        "Scope": "string",
        "Maximum": "real",
        "Used": "real",
        "MaxStarts": "integer",
        "StartsSeconds": "real",
        "Started": "integer",
    },
    order=("name", "scope"),
)

GROUPS = View(
    f"(SELECT *, {_NO_AD} FROM fetchwork.groups) AS groups",  # noqa: S608 - a constant
    "AccountingGroup",
    {
        "Name": "string",
        "Parent": "string",
        "ConfigQuota": "real",
        "DynamicQuota": "real",
        "AcceptSurplus": "boolean",
        "AutoRegroup": "boolean",
        "PriorityFactor": "real",
        "SubtreeQuota": "real",
        "EffectiveQuota": "real",
        "WeightedInUse": "real",
        "SubtreeInUse": "real",
        "Requested": "real",
        "MaxIdle": "integer",
        "MaxAutoclusters": "integer",
    },
    order=("name",),
)

# the ads of condor_userprio, of groups and submitters
ACCOUNTING = View(
    # groups first
    f"(SELECT *, NOT isaccountinggroup AS is_user, {_NO_AD} FROM fetchwork.accounting) AS accounting",  # noqa: S608
    "Accounting",
    {
        "Name": "string",
        "IsAccountingGroup": "boolean",
        "AccountingGroup": "string",
        "Priority": "real",
        "PriorityFactor": "real",
        "ConfigQuota": "real",
        "EffectiveQuota": "real",
        "SubtreeQuota": "real",
        "GroupSortKey": "real",
        "SurplusPolicy": "string",
        "Requested": "real",
        "ResourcesUsed": "integer",
        "WeightedResourcesUsed": "real",
        "WeightedAccumulatedUsage": "real",
        "LastUsageTime": "integer",
        "LastUpdate": "integer",
        "MaxRunning": "integer",
    },
    order=("is_user", "name"),
    expressions={"LastUsageTime": epoch("coalesce(used_at, 'epoch')"), "LastUpdate": epoch("now()")},
)

SETTINGS = View(
    f"(SELECT name, value::float8, unit, meaning, {_NO_AD} FROM fetchwork.settings) AS settings",  # noqa: S608
    "Setting",
    {"Name": "string", "Value": "real", "Unit": "string", "Meaning": "string"},
    order=("name",),
)
