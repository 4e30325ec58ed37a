-- Quotas and use of each accounting group and of "<none>" now, in weighted slots, by the rules of HTCondor's
-- negotiator (GroupEntry::hgq_assign_quotas, observed on 23.9.6): a quota is what it says, even if quotas
-- exceed the parent's (NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION); shares divide what quotas leave, and are
-- scaled if they exceed 1 together; below a quota of 0 all are 0. "<none>" has what the groups leave of the
-- pool: of all slots whose agents are alive.
-- requested: the weights of the running jobs and RequestCpus of the idle ones, as a schedd counts them.
CREATE OR REPLACE FUNCTION fetchwork.group_figures()
RETURNS TABLE (
    name text,
    subtree_quota double precision,
    quota double precision,
    in_use double precision,
    subtree_in_use double precision,
    requested double precision
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH RECURSIVE pool AS (
        SELECT coalesce(sum(s.weight), 0) AS weight
        FROM fetchwork.slot AS s
        JOIN fetchwork.host AS h ON h.host_id = s.host_id
        -- a dynamic slot is a part of its partitionable one
        WHERE h.lease_until >= now() AND s.slot_type IS DISTINCT FROM 'Dynamic'
    ),
    below AS (
        SELECT
            coalesce(g.parent, '<none>') AS name, coalesce(sum(g.quota), 0) AS quotas,
            greatest(sum(g.dynamic_quota), 1) AS shares
        FROM fetchwork.accounting_group AS g
        GROUP BY coalesce(g.parent, '<none>')
    ),
    node AS (
        SELECT '<none>' AS name, p.weight AS subtree_quota
        FROM pool AS p
        UNION ALL
        SELECT
            g.name,
            CASE
                -- a pool whose slots are not reported yet has its quotas
                WHEN n.subtree_quota <= 0 AND n.name <> '<none>' THEN 0
                ELSE coalesce(g.quota, g.dynamic_quota * greatest(0, n.subtree_quota - b.quotas) / b.shares)
            END
        FROM node AS n
        JOIN below AS b ON b.name = n.name
        JOIN fetchwork.accounting_group AS g ON coalesce(g.parent, '<none>') = n.name
    ),
    counted AS (
        SELECT c.autocluster_id, sum(c.jobs) AS jobs, sum(c.runs) AS runs, sum(c.weight) AS weight
        FROM (
            SELECT t.autocluster_id, t.jobs - t.held AS jobs, 0 AS runs, 0 AS weight
            FROM fetchwork.tally AS t
            UNION ALL
            SELECT t.autocluster_id, t.jobs - t.held, 0, 0
            FROM fetchwork.tally_change AS t
            UNION ALL
            SELECT r.autocluster_id, 0, 1, r.weight
            FROM fetchwork.run AS r
        ) AS c
        GROUP BY c.autocluster_id
    ),
    used AS (
        SELECT
            a.submitter, sum(c.weight) AS in_use,
            sum(greatest(c.jobs - c.runs, 0) * coalesce(a.request_cpus, 1)) AS idle
        FROM counted AS c
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
        -- jobs of the scheduler universe take no slot
        WHERE a.access_point IS NULL
        GROUP BY a.submitter
    ),
    own AS (
        SELECT
            coalesce(fetchwork.group_of(u.submitter), '<none>') AS name, sum(u.in_use) AS in_use,
            sum(u.idle) AS idle
        FROM used AS u
        GROUP BY 1
    )
    SELECT
        n.name, n.subtree_quota,
        CASE
            WHEN n.name = '<none>' THEN greatest(
                0,
                n.subtree_quota - (
                    SELECT sum(t.subtree_quota)
                    FROM node AS t
                    JOIN fetchwork.accounting_group AS g ON g.name = t.name AND g.parent IS NULL
                )
            )
            ELSE n.subtree_quota
        END,
        coalesce(o.in_use, 0),
        (
            SELECT coalesce(sum(b.in_use), 0)
            FROM own AS b
            WHERE n.name = '<none>' OR b.name = n.name OR starts_with(lower(b.name), lower(n.name) || '.')
        ),
        coalesce(o.in_use, 0) + coalesce(o.idle, 0)
    FROM node AS n
    LEFT JOIN own AS o ON o.name = n.name
    WHERE EXISTS (SELECT FROM fetchwork.accounting_group);
END;
