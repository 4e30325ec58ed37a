-- Raises FWDEN if jobs that were just put into autoclusters, or released, make their submitter, or a group
-- that it belongs to, exceed a ceiling: max_idle (Idle jobs) or max_autoclusters (autoclusters with jobs in
-- the queue). A null of the submitter stands for the setting, a null of the group and any 0 for no ceiling.
-- Jobs count in the group of their submitter and in each group above it. Submissions, edit() and the releases
-- of people call it after the jobs are counted (tally_change). added: the number of jobs that each
-- autocluster got; idle: the number of Idle jobs that it has more, or, below 0, less. A submitter or group
-- above a lowered ceiling is refused further Idle jobs, and autoclusters that have no other jobs, but nothing
-- else. Jobs of the scheduler universe take no slot and do not count.
-- Reads sums by autocluster and locks nothing, as check_owner: several submissions at the same moment may
-- pass a ceiling, each by the jobs and autoclusters that it adds; all later ones are refused. STABLE: all
-- sums are of one snapshot.
CREATE OR REPLACE FUNCTION fetchwork.check_ceilings(
    autoclusters integer [], added bigint [], idle bigint []
)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    usual_idle bigint;
    usual_autoclusters bigint;
    ceiling record;
    found_autoclusters bigint;
    found_idle bigint;
    is_new boolean;
BEGIN
    -- the usual case, and a quick one
    IF NOT EXISTS (
            SELECT FROM fetchwork.setting AS s
            WHERE s.name IN ('max_idle_per_submitter', 'max_autoclusters_per_submitter') AND s.value > 0
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.submitter AS s
            WHERE s.max_idle > 0 OR s.max_autoclusters > 0
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.accounting_group AS g
            WHERE g.max_idle > 0 OR g.max_autoclusters > 0
        )
    THEN
        RETURN;
    END IF;
    usual_idle := fetchwork.setting_value('max_idle_per_submitter');
    usual_autoclusters := fetchwork.setting_value('max_autoclusters_per_submitter');
    FOR ceiling IN
        WITH changed AS (
            SELECT a.submitter, sum(g.added) AS added, sum(g.idle) AS idle
            FROM unnest(autoclusters, check_ceilings.added, check_ceilings.idle)
                AS g (autocluster_id, added, idle)
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = g.autocluster_id
            WHERE a.access_point IS NULL
            GROUP BY a.submitter
        )
        SELECT
            'submitter' AS scope, c.submitter AS name, NULL AS prefix, c.idle > 0 AS more_idle,
            coalesce(s.max_idle, usual_idle) AS max_idle,
            coalesce(s.max_autoclusters, usual_autoclusters) AS max_autoclusters,
            CASE
                WHEN s.max_idle IS NULL THEN 'setting max_idle_per_submitter'
                ELSE 'max_idle of this submitter'
            END AS idle_set_by,
            CASE
                WHEN s.max_autoclusters IS NULL THEN 'setting max_autoclusters_per_submitter'
                ELSE 'max_autoclusters of this submitter'
            END AS autoclusters_set_by
        FROM changed AS c
        LEFT JOIN fetchwork.submitter AS s ON s.name = c.submitter
        WHERE (c.added > 0 OR c.idle > 0)
            AND (
                coalesce(s.max_idle, usual_idle) > 0
                OR coalesce(s.max_autoclusters, usual_autoclusters) > 0
            )
        UNION ALL
        SELECT
            'group', g.name, lower(g.name) || '.', sum(c.idle) > 0, g.max_idle, g.max_autoclusters,
            'max_idle of this group', 'max_autoclusters of this group'
        FROM changed AS c
        JOIN fetchwork.accounting_group AS g ON lower(g.name) = ANY (fetchwork.group_path(c.submitter))
        WHERE g.max_idle > 0 OR g.max_autoclusters > 0
        GROUP BY g.name
        HAVING sum(c.added) > 0 OR sum(c.idle) > 0
        -- the ceiling that is nearest to the submitter is the first to be named
        ORDER BY scope DESC, prefix DESC, name
    LOOP
        SELECT
            count(*) FILTER (WHERE n.jobs > 0),
            coalesce(sum(n.jobs - n.held), 0),
            coalesce(bool_or(n.added > 0 AND n.jobs = n.added), false)
        INTO found_autoclusters, found_idle, is_new
        FROM (
            SELECT u.autocluster_id, sum(u.jobs) AS jobs, sum(u.held) AS held, sum(u.added) AS added
            FROM (
                -- OFFSET 0: each row is looked up by its key, also with a plan of empty tables
                SELECT a.autocluster_id, t.jobs, t.held, 0 AS added
                FROM (
                    SELECT a.autocluster_id, a.access_point
                    FROM fetchwork.autocluster AS a
                    WHERE ceiling.scope = 'submitter' AND a.submitter = ceiling.name
                    UNION ALL
                    SELECT a.autocluster_id, a.access_point
                    FROM fetchwork.autocluster AS a
                    WHERE ceiling.scope = 'group'
                        AND lower(a.submitter) COLLATE "C" >= ceiling.prefix
                        -- "/" is the character behind "."
                        AND lower(a.submitter) COLLATE "C" < rtrim(ceiling.prefix, '.') || '/'
                ) AS a
                CROSS JOIN LATERAL (
                    SELECT t.jobs, t.held
                    FROM fetchwork.tally AS t
                    WHERE t.autocluster_id = a.autocluster_id
                    OFFSET 0
                ) AS t
                WHERE a.access_point IS NULL
                UNION ALL
                SELECT c.autocluster_id, c.jobs, c.held, 0
                FROM fetchwork.tally_change AS c
                CROSS JOIN LATERAL (
                    SELECT a.submitter, a.access_point
                    FROM fetchwork.autocluster AS a
                    WHERE a.autocluster_id = c.autocluster_id
                    OFFSET 0
                ) AS a
                WHERE CASE ceiling.scope
                        WHEN 'group' THEN starts_with(lower(a.submitter), ceiling.prefix)
                        ELSE a.submitter = ceiling.name
                    END
                    AND a.access_point IS NULL
                    AND (c.jobs <> 0 OR c.held <> 0)
                UNION ALL
                SELECT g.autocluster_id, 0, 0, g.added
                FROM unnest(autoclusters, check_ceilings.added) AS g (autocluster_id, added)
            ) AS u
            GROUP BY u.autocluster_id
        ) AS n;
        IF ceiling.more_idle AND ceiling.max_idle > 0 AND found_idle > ceiling.max_idle THEN
            -- as in the view totals: the live runs, and the jobs whose outputs are being delivered
            found_idle := found_idle - (
                SELECT count(*)
                FROM (
                    SELECT r.autocluster_id
                    FROM fetchwork.run AS r
                    WHERE r.job_status IN (2, 3, 7)
                    UNION ALL
                    SELECT j.autocluster_id
                    FROM fetchwork.bringing AS b
                    JOIN fetchwork.job AS j ON j.cluster_id = b.cluster_id AND j.proc_id = b.proc_id
                ) AS r
                JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
                WHERE CASE ceiling.scope
                        WHEN 'group' THEN starts_with(lower(a.submitter), ceiling.prefix)
                        ELSE a.submitter = ceiling.name
                    END
                    AND a.access_point IS NULL
            );
            IF found_idle > ceiling.max_idle THEN
                RAISE EXCEPTION '% % would have % idle jobs in the queue; allowed: % (%; an administrator '
                    'may raise it)',
                    ceiling.scope, quote_nullable(ceiling.name), found_idle, ceiling.max_idle,
                    ceiling.idle_set_by USING ERRCODE = 'FWDEN';
            END IF;
        END IF;
        IF is_new AND ceiling.max_autoclusters > 0 AND found_autoclusters > ceiling.max_autoclusters THEN
            RAISE EXCEPTION '% % would have % autoclusters in the queue; allowed: % (%; an administrator '
                'may raise it)',
                ceiling.scope, quote_nullable(ceiling.name), found_autoclusters, ceiling.max_autoclusters,
                ceiling.autoclusters_set_by USING ERRCODE = 'FWDEN';
        END IF;
    END LOOP;
END
$$;
