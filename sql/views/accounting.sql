-- The ads of condor_userprio: of each accounting group with a quota, of HTCondor's root group "<none>", and
-- of each submitter, with the attributes that HTCondor's negotiator gives them. Usage is in weighted slot
-- seconds, with that of live runs so far. The usage of a group is that of its own submitters, without those
-- of groups below it. The sort key is HTCondor's default GROUP_SORT_EXPR.
CREATE OR REPLACE VIEW fetchwork.accounting AS
WITH constant AS (
    SELECT
        max(s.value::double precision) FILTER (WHERE s.name = 'priority_halflife') AS halflife,
        max(s.value::double precision) FILTER (WHERE s.name = 'default_prio_factor') AS factor
    FROM fetchwork.setting AS s
    WHERE s.name IN ('priority_halflife', 'default_prio_factor')
),
submitter AS MATERIALIZED (
    SELECT
        s.submitter AS name, coalesce(s.accounting_group, '<none>') AS accounting_group,
        s.prio_factor, s.effective_prio, s.usage, s.running, coalesce(live.weight, 0) AS weight,
        coalesce(t.total_usage, 0) + coalesce(live.used, 0) + coalesce(ended.used, 0) AS total_usage,
        CASE
            WHEN coalesce(live.used, ended.used) IS NOT NULL THEN now()
            WHEN t.total_usage > 0 THEN t.usage_at
        END AS used_at,
        t.max_running
    FROM fetchwork.shares() AS s
    LEFT JOIN fetchwork.submitter AS t ON t.name = s.submitter
    LEFT JOIN (
        SELECT
            a.submitter, sum(r.weight) AS weight,
            sum(r.weight * fetchwork.charged_s(r, clock_timestamp())) AS used
        FROM fetchwork.run AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
        -- runs at an access point take no slot
        WHERE a.access_point IS NULL
        GROUP BY a.submitter
    ) AS live ON live.submitter = s.submitter
    LEFT JOIN (
        SELECT a.submitter, sum(c.usage) AS used
        FROM fetchwork.tally_change AS c
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
        WHERE c.usage <> 0
        GROUP BY a.submitter
    ) AS ended ON ended.submitter = s.submitter
),
own AS (
    SELECT
        s.accounting_group, sum(s.usage) AS usage, sum(s.total_usage) AS total_usage,
        sum(s.running) AS running, max(s.used_at) AS used_at
    FROM submitter AS s
    GROUP BY s.accounting_group
),
tree AS (
    SELECT
        f.name, coalesce(g.parent, '<none>') AS parent,
        coalesce(g.prio_factor, constant.factor) AS prio_factor, constant.halflife,
        coalesce(g.quota, g.dynamic_quota, 0) AS config_quota,
        f.subtree_quota, f.in_use, f.requested,
        -- the root group may use the whole pool if groups compete there for what is left
        CASE WHEN f.name = '<none>' AND any_group.autoregroup THEN f.subtree_quota ELSE f.quota END AS quota,
        CASE
            WHEN coalesce(g.autoregroup, any_group.autoregroup) THEN 'regroup'
            WHEN coalesce(g.accept_surplus, true) THEN 'byquota'
            ELSE 'no'
        END AS policy
    FROM fetchwork.group_figures() AS f
    LEFT JOIN fetchwork.accounting_group AS g ON g.name = f.name
    CROSS JOIN (
        SELECT bool_or(a.autoregroup) AS autoregroup
        FROM fetchwork.accounting_group AS a
    ) AS any_group
    CROSS JOIN constant
)
SELECT
    t.name,
    true AS isaccountinggroup,
    t.parent AS accountinggroup,
    t.prio_factor * greatest(0.5, o.usage * ln(2) / t.halflife) AS priority,
    t.prio_factor AS priorityfactor,
    t.config_quota AS configquota,
    t.quota AS effectivequota,
    t.subtree_quota AS subtreequota,
    CASE
        WHEN t.name = '<none>' THEN 3.4e38
        WHEN t.quota > 0 THEN t.in_use / t.quota
        ELSE 3.3e38
    END AS groupsortkey,
    t.policy AS surpluspolicy,
    t.requested,
    coalesce(o.running, 0)::bigint AS resourcesused,
    t.in_use AS weightedresourcesused,
    coalesce(o.total_usage, 0) AS weightedaccumulatedusage,
    o.used_at,
    NULL::integer AS maxrunning
FROM tree AS t
LEFT JOIN own AS o ON o.accounting_group = t.name
UNION ALL
SELECT
    s.name, false, s.accounting_group, s.effective_prio, s.prio_factor, NULL, NULL, NULL, NULL, NULL, NULL,
    s.running, s.weight, s.total_usage, s.used_at, s.max_running
FROM submitter AS s;
