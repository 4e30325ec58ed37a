-- Each submitter's use of the pool now, as HTCondor's negotiator computes it. usage: weighted slot seconds
-- decayed by a half-life to now, with those of live runs so far. effective_prio = real priority x factor: the
-- submitter with the lowest gets the next slot of its accounting group (group_of; NULL: none). Real priority
-- is usage / (halflife / ln 2), the number of slots that a constant use would be, and 0.5 at least
-- (condor_userprio).
CREATE OR REPLACE FUNCTION fetchwork.shares()
RETURNS TABLE (
    submitter text,
    prio_factor double precision,
    usage double precision,
    real_prio double precision,
    effective_prio double precision,
    running bigint,
    accounting_group text
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH constant AS (
        SELECT fetchwork.setting_value('priority_halflife')::double precision AS halflife,
            fetchwork.setting_value('default_prio_factor')::double precision AS factor
    ),
    live AS (
        SELECT
            a.submitter, count(*) AS running,
            sum(r.weight * fetchwork.charged_s(r, clock_timestamp())) AS used
        FROM fetchwork.run AS r
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
        -- runs at an access point take no slot
        WHERE a.access_point IS NULL
        GROUP BY a.submitter
    ),
    ended AS (
        SELECT a.submitter, sum(c.usage) AS used
        FROM fetchwork.tally_change AS c
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
        WHERE c.usage <> 0
        GROUP BY a.submitter
    ),
    known AS (
        SELECT s.name, s.prio_factor, s.usage, s.usage_at
        FROM fetchwork.submitter AS s
        UNION ALL
        SELECT DISTINCT a.submitter, NULL::double precision, 0::double precision, now()
        FROM fetchwork.tally_change AS c
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
        WHERE NOT EXISTS (SELECT FROM fetchwork.submitter AS s WHERE s.name = a.submitter)
    ),
    now_used AS (
        SELECT
            s.name, coalesce(s.prio_factor, g.prio_factor, constant.factor) AS factor, constant.halflife,
            coalesce(live.running, 0) AS running,
            s.usage * power(0.5, extract(epoch FROM clock_timestamp() - s.usage_at) / constant.halflife)
                + coalesce(live.used, 0) + coalesce(ended.used, 0) AS used,
            g.name AS accounting_group
        FROM known AS s
        CROSS JOIN constant
        LEFT JOIN live ON live.submitter = s.name
        LEFT JOIN ended ON ended.submitter = s.name
        LEFT JOIN fetchwork.accounting_group AS g ON g.name = CASE
            -- without a group, nothing is looked up for each submitter
            WHEN EXISTS (SELECT FROM fetchwork.accounting_group) THEN fetchwork.group_of(s.name)
        END
    )
    SELECT
        u.name, u.factor, u.used, greatest(0.5, u.used * ln(2) / u.halflife),
        u.factor * greatest(0.5, u.used * ln(2) / u.halflife), u.running,
        u.accounting_group
    FROM now_used AS u;
END;
