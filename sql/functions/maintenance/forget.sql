-- Forgets autoclusters and batches that have had no jobs for forget_after, and their counts, and submitters
-- without usage and settings. History and events stay, and their owners stay known (past_owner); only the
-- counts of jobs that ended long ago go (views totals and batches). At most 20 000 of each in a call; also
-- the noted actions that are older than events.
-- Locks: the rows that it deletes; skips locked ones. A submission that is about to use a row holds KEY SHARE
-- on it, as a reference or in ensure_autocluster; a new statement, and so a new snapshot, checks the locked
-- rows again before their deletion.
CREATE OR REPLACE FUNCTION fetchwork.forget()
RETURNS void
LANGUAGE plpgsql
SET jit = off
AS $$
DECLARE
    since timestamptz := now() - fetchwork.setting_time('forget_after');
    halflife double precision := fetchwork.setting_value('priority_halflife');
    ids integer[];
    names text[];
BEGIN
    DELETE FROM fetchwork.action AS a
    WHERE a.action_id IN (
        SELECT o.action_id
        FROM (
            SELECT f.action_id, f.at
            FROM fetchwork.action AS f
            ORDER BY f.action_id
            LIMIT 20000
        ) AS o
        WHERE o.at < now() - fetchwork.setting_time('event_days')
    );
    SELECT array_agg(l.autocluster_id)
    INTO ids
    FROM (
        SELECT a.autocluster_id
        FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id IN (
            SELECT t.autocluster_id
            FROM fetchwork.tally AS t
            GROUP BY t.autocluster_id
            HAVING bool_and(t.jobs = 0 AND t.changed_at < since)
            LIMIT 20000
        )
        FOR UPDATE SKIP LOCKED
    ) AS l;
    SELECT array_agg(i.id)
    INTO ids
    FROM unnest(ids) AS i (id)
    WHERE NOT EXISTS (SELECT FROM fetchwork.tally AS t WHERE t.autocluster_id = i.id AND t.jobs <> 0)
        AND i.id NOT IN (SELECT c.autocluster_id FROM fetchwork.tally_change AS c)
        AND i.id NOT IN (SELECT r.autocluster_id FROM fetchwork.run AS r)
        AND i.id NOT IN (SELECT d.autocluster_id FROM fetchwork.demand AS d)
        AND i.id NOT IN (SELECT j.autocluster_id FROM fetchwork.job AS j);
    DELETE FROM fetchwork.tally AS t
    WHERE t.autocluster_id = ANY (ids);
    DELETE FROM fetchwork.slot_rest AS r
    WHERE r.autocluster_id = ANY (ids);
    WITH gone AS (
        DELETE FROM fetchwork.autocluster AS a
        WHERE a.autocluster_id = ANY (ids)
        RETURNING a.owner
    )
    INSERT INTO fetchwork.past_owner AS p (name, forgotten_at)
    SELECT DISTINCT g.owner, now()
    FROM gone AS g
    ON CONFLICT (name) DO UPDATE SET forgotten_at = excluded.forgotten_at;

    SELECT array_agg(l.batch_id)
    INTO ids
    FROM (
        SELECT b.batch_id
        FROM fetchwork.batch AS b
        WHERE b.batch_id NOT IN (SELECT t.batch_id FROM fetchwork.tally AS t)
        LIMIT 20000
        FOR UPDATE SKIP LOCKED
    ) AS l;
    DELETE FROM fetchwork.batch AS b
    WHERE b.batch_id = ANY (ids)
        AND NOT EXISTS (SELECT FROM fetchwork.tally AS t WHERE t.batch_id = b.batch_id)
        AND NOT EXISTS (SELECT FROM fetchwork.tally_change AS c WHERE c.batch_id = b.batch_id)
        AND NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.batch_id = b.batch_id);

    SELECT array_agg(l.name)
    INTO names
    FROM (
        SELECT s.name
        FROM fetchwork.submitter AS s
        WHERE s.prio_factor IS NULL
            AND s.max_running IS NULL
            AND s.max_idle IS NULL
            AND s.max_autoclusters IS NULL
            AND s.usage_at < since
            -- less than a second of one slot
            AND s.usage * power(
                0.5, least(1000, extract(epoch FROM clock_timestamp() - s.usage_at) / halflife)
            ) < 1
            AND s.name NOT IN (SELECT a.submitter FROM fetchwork.autocluster AS a)
        LIMIT 20000
        FOR UPDATE SKIP LOCKED
    ) AS l;
    DELETE FROM fetchwork.submitter AS s
    WHERE s.name = ANY (names)
        AND NOT EXISTS (SELECT FROM fetchwork.autocluster AS a WHERE a.submitter = s.name);
END
$$;
