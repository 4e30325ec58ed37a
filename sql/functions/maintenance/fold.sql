-- Adds the rows of tally_change to the counts, to the submitters' usage and to the owners' numbers of jobs,
-- and deletes them. Makes the row of a new submitter. Returns how many changes there were. One call at a
-- time; a concurrent one returns 0 at once.
CREATE OR REPLACE FUNCTION fetchwork.fold()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    folded integer;
    halflife double precision := fetchwork.setting_value('priority_halflife');
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.tally_change AS c) OR NOT fetchwork.take_turn('fold') THEN
        RETURN 0;
    END IF;
    WITH change AS (
        DELETE FROM fetchwork.tally_change AS c
        RETURNING c.*
    ),
    counted AS (
        INSERT INTO fetchwork.tally AS t (autocluster_id, batch_id, jobs, held, completed, removed)
        SELECT
            c.autocluster_id, coalesce(c.batch_id, 0), sum(c.jobs), sum(c.held), sum(c.completed),
            sum(c.removed)
        FROM change AS c
        GROUP BY c.autocluster_id, coalesce(c.batch_id, 0)
        HAVING bool_or(c.jobs <> 0 OR c.held <> 0 OR c.completed <> 0 OR c.removed <> 0)
        ON CONFLICT (autocluster_id, batch_id) DO UPDATE SET
            jobs = t.jobs + excluded.jobs,
            held = t.held + excluded.held,
            completed = t.completed + excluded.completed,
            removed = t.removed + excluded.removed,
            changed_at = now()
    ),
    used AS (
        INSERT INTO fetchwork.submitter AS s (name, usage, total_usage, usage_at)
        SELECT a.submitter, sum(c.usage), sum(c.usage), clock_timestamp()
        FROM change AS c
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = c.autocluster_id
        WHERE c.usage <> 0
            OR NOT EXISTS (SELECT FROM fetchwork.submitter AS k WHERE k.name = a.submitter)
        GROUP BY a.submitter
        ON CONFLICT (name) DO UPDATE SET
            usage = excluded.usage
                + s.usage * power(0.5, extract(epoch FROM clock_timestamp() - s.usage_at) / halflife),
            total_usage = s.total_usage + excluded.usage,
            usage_at = clock_timestamp()
    ),
    owned AS (
        INSERT INTO fetchwork.owner_tally AS o (owner, jobs)
        SELECT c.owner, sum(c.jobs)
        FROM change AS c
        WHERE c.owner IS NOT NULL
        GROUP BY c.owner
        ON CONFLICT (owner) DO UPDATE SET jobs = o.jobs + excluded.jobs
    )
    SELECT count(*)
    INTO folded
    FROM change;
    DELETE FROM fetchwork.owner_tally AS o
    WHERE o.jobs = 0;
    RETURN folded;
END
$$;
