"""The invariants of a queue, written once: each entry is a statement whose rows are violations.

Used by the tests of SQL after every kind of treatment, and by the fault harness during and after its runs.
"""

import psycopg

INVARIANTS = {
    "a submitted job is in exactly one of job and job_history": """
        WITH place AS (
            SELECT cluster_id, proc_id, 'job' AS place FROM fetchwork.job
            UNION ALL
            SELECT cluster_id, proc_id, 'job_history' FROM fetchwork.job_history
        ),
        submitted AS (
            SELECT cluster_id, proc_id, count(*) AS times FROM fetchwork.event WHERE event_type = 0 GROUP BY cluster_id, proc_id
        )
        SELECT cluster_id || '.' || proc_id AS job, s.times AS submit_events, string_agg(p.place, ',') AS places
        FROM submitted AS s
        FULL JOIN place AS p USING (cluster_id, proc_id)
        GROUP BY cluster_id, proc_id, s.times
        HAVING s.times IS DISTINCT FROM 1 OR count(p.place) <> 1
    """,
    "a job has its cluster, its autocluster and its batch": """
        SELECT j.cluster_id || '.' || j.proc_id AS job
        FROM fetchwork.job AS j
        WHERE NOT EXISTS (SELECT FROM fetchwork.cluster AS c WHERE c.cluster_id = j.cluster_id)
            OR NOT EXISTS (SELECT FROM fetchwork.autocluster AS a WHERE a.autocluster_id = j.autocluster_id)
            OR (j.batch_id IS NOT NULL AND NOT EXISTS (SELECT FROM fetchwork.batch AS b WHERE b.batch_id = j.batch_id))
    """,
    "a live run has its job": """
        SELECT r.run_id, r.state, r.cluster_id || '.' || r.proc_id AS job
        FROM fetchwork.run AS r
        WHERE NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id)
    """,
    "a job is Running or Suspended if and only if a run that passed the fence is alive and says the same": """
        SELECT j.cluster_id || '.' || j.proc_id AS job, j.job_status, j.run_id, r.run_id AS live, r.state, r.job_status AS of_run
        FROM fetchwork.job AS j
        LEFT JOIN fetchwork.run AS r ON r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id
        WHERE (j.job_status IN (2, 3, 7)) > (r.state IS NOT DISTINCT FROM 'running')
            OR (r.state = 'running' AND (r.job_status <> j.job_status OR j.run_id IS DISTINCT FROM r.run_id))
            OR (r.state <> 'running' AND (j.job_status <> 1 OR r.job_status <> 1 OR j.run_id IS NOT NULL))
            OR (r.run_id IS NULL AND j.run_id IS NOT NULL)
            OR (r.run_id IS NOT NULL AND r.autocluster_id <> j.autocluster_id)
    """,
    "a job is TransferringOutput if and only if its end waits for its access point": """
        SELECT j.cluster_id || '.' || j.proc_id AS job, j.job_status, b.cluster_id || '.' || b.proc_id AS awaited
        FROM (SELECT * FROM fetchwork.job WHERE job_status = 6) AS j
        FULL JOIN fetchwork.bringing AS b USING (cluster_id, proc_id)
        WHERE j.cluster_id IS NULL OR b.cluster_id IS NULL
    """,
    "a job waits if and only if it is Idle, has no live run and is not delayed": """
        WITH should AS (
            SELECT j.cluster_id, j.proc_id, j.autocluster_id, j.job_prio, j.position
            FROM fetchwork.job AS j
            WHERE j.job_status = 1 AND j.not_before IS NULL
                AND NOT EXISTS (SELECT FROM fetchwork.run AS r WHERE r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id)
        ),
        does AS (
            SELECT cluster_id, proc_id, autocluster_id, job_prio, position FROM fetchwork.waiting
        )
        SELECT 'should wait' AS fault, s.* FROM (SELECT * FROM should EXCEPT ALL SELECT * FROM does) AS s
        UNION ALL
        SELECT 'should not wait', d.* FROM (SELECT * FROM does EXCEPT ALL SELECT * FROM should) AS d
    """,
    "what waits is in demand": """
        SELECT DISTINCT w.autocluster_id, w.job_prio
        FROM fetchwork.waiting AS w
        WHERE NOT EXISTS (SELECT FROM fetchwork.demand AS d WHERE d.autocluster_id = w.autocluster_id AND d.job_prio = w.job_prio)
    """,
    "the counts are what counting the jobs gives": """
        WITH kept AS (
            SELECT autocluster_id, batch_id, sum(jobs) AS jobs, sum(held) AS held, sum(completed) AS completed, sum(removed) AS removed
            FROM (
                SELECT autocluster_id, batch_id, jobs, held, completed, removed FROM fetchwork.tally
                UNION ALL
                SELECT autocluster_id, coalesce(batch_id, 0), jobs, held, completed, removed FROM fetchwork.tally_change
            ) AS t
            GROUP BY autocluster_id, batch_id
        ),
        counted AS (
            SELECT autocluster_id, coalesce(batch_id, 0) AS batch_id,
                count(*) FILTER (WHERE job_status <> 4 AND NOT past) AS jobs,
                count(*) FILTER (WHERE job_status = 5) AS held,
                count(*) FILTER (WHERE job_status = 4) AS completed,
                count(*) FILTER (WHERE job_status = 3 AND past) AS removed
            FROM (
                SELECT autocluster_id, batch_id, job_status, false AS past FROM fetchwork.job
                UNION ALL
                SELECT autocluster_id, batch_id, job_status, true FROM fetchwork.job_history
            ) AS j
            GROUP BY autocluster_id, coalesce(batch_id, 0)
        )
        SELECT autocluster_id, batch_id, to_jsonb(k) - 'autocluster_id' - 'batch_id' AS kept, to_jsonb(c) - 'autocluster_id' - 'batch_id' AS counted
        FROM kept AS k
        FULL JOIN counted AS c USING (autocluster_id, batch_id)
        WHERE (coalesce(k.jobs, 0), coalesce(k.held, 0), coalesce(k.completed, 0), coalesce(k.removed, 0))
            <> (coalesce(c.jobs, 0), coalesce(c.held, 0), coalesce(c.completed, 0), coalesce(c.removed, 0))
            -- counts of ended jobs are forgotten with their autocluster
            AND (c.jobs <> 0 OR EXISTS (SELECT FROM fetchwork.autocluster AS a WHERE a.autocluster_id = coalesce(k.autocluster_id, c.autocluster_id)))
    """,
    "the totals are what counting the jobs gives": """
        WITH counted AS (
            SELECT autocluster_id AS autoclusterid,
                count(*) FILTER (WHERE job_status = 1) AS idle, count(*) FILTER (WHERE job_status IN (2, 6)) AS running,
                count(*) FILTER (WHERE job_status = 5) AS held, count(*) FILTER (WHERE job_status = 7) AS suspended,
                count(*) FILTER (WHERE job_status = 3) AS ending
            FROM fetchwork.job
            GROUP BY autocluster_id
        )
        SELECT autoclusterid, t.idle, t.running, t.held, t.suspended, t.ending, to_jsonb(c) AS counted
        FROM fetchwork.totals AS t
        FULL JOIN counted AS c USING (autoclusterid)
        WHERE (coalesce(t.idle, 0), coalesce(t.running, 0), coalesce(t.held, 0), coalesce(t.suspended, 0), coalesce(t.ending, 0))
            <> (coalesce(c.idle, 0), coalesce(c.running, 0), coalesce(c.held, 0), coalesce(c.suspended, 0), coalesce(c.ending, 0))
    """,
    "the counts of owners are what counting the jobs gives": """
        WITH kept AS (
            SELECT owner, sum(jobs) AS jobs
            FROM (
                SELECT owner, jobs FROM fetchwork.owner_tally
                UNION ALL
                SELECT owner, jobs FROM fetchwork.tally_change WHERE owner IS NOT NULL
            ) AS t
            GROUP BY owner
        )
        SELECT owner, k.jobs AS kept, c.jobs AS counted
        FROM kept AS k
        FULL JOIN (SELECT owner, count(*) AS jobs FROM fetchwork.job GROUP BY owner) AS c USING (owner)
        WHERE coalesce(k.jobs, 0) <> coalesce(c.jobs, 0)
    """,
    "a run has one record": """
        SELECT run_id, count(*)
        FROM (SELECT run_id FROM fetchwork.run UNION ALL SELECT run_id FROM fetchwork.run_history) AS r
        GROUP BY run_id
        HAVING count(*) > 1
    """,
    "no two runs of a job overlap between start and end": """
        WITH tried AS (
            SELECT cluster_id, proc_id, run_id, started_at, ended_at FROM fetchwork.run_history WHERE started_at IS NOT NULL
            UNION ALL
            SELECT cluster_id, proc_id, run_id, started_at, 'infinity' FROM fetchwork.run WHERE started_at IS NOT NULL
        )
        SELECT a.cluster_id || '.' || a.proc_id AS job, a.run_id, b.run_id AS later, a.ended_at, b.started_at
        FROM tried AS a
        JOIN tried AS b ON b.cluster_id = a.cluster_id AND b.proc_id = a.proc_id AND b.run_id > a.run_id
        WHERE b.started_at < a.ended_at
    """,
    "a job's starts are its runs that passed the fence, each with its event": """
        WITH started AS (
            SELECT cluster_id, proc_id, count(*) AS runs
            FROM (
                SELECT cluster_id, proc_id FROM fetchwork.run_history WHERE started_at IS NOT NULL
                UNION ALL
                SELECT cluster_id, proc_id FROM fetchwork.run WHERE started_at IS NOT NULL
            ) AS r
            GROUP BY cluster_id, proc_id
        ),
        executed AS (
            SELECT cluster_id, proc_id, count(*) AS events, count(DISTINCT run_id) AS runs FROM fetchwork.event WHERE event_type = 1
            GROUP BY cluster_id, proc_id
        ),
        known AS (
            SELECT cluster_id, proc_id, num_starts FROM fetchwork.job
            UNION ALL
            SELECT cluster_id, proc_id, num_starts FROM fetchwork.job_history
        )
        SELECT cluster_id || '.' || proc_id AS job, k.num_starts, s.runs, e.events
        FROM known AS k
        LEFT JOIN started AS s USING (cluster_id, proc_id)
        LEFT JOIN executed AS e USING (cluster_id, proc_id)
        WHERE k.num_starts <> coalesce(s.runs, 0) OR k.num_starts <> coalesce(e.events, 0) OR k.num_starts <> coalesce(e.runs, 0)
    """,
    "a Completed job has one end on record, a run and an event that tell the same": """
        SELECT j.cluster_id || '.' || j.proc_id AS job, count(DISTINCT e.event_id) AS events, count(DISTINCT r.run_id) AS runs
        FROM fetchwork.job_history AS j
        LEFT JOIN fetchwork.event AS e ON e.cluster_id = j.cluster_id AND e.proc_id = j.proc_id AND e.event_type = 5
        LEFT JOIN fetchwork.run_history AS r
            ON r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id AND r.run_id = e.run_id AND r.outcome = 'completed'
                AND (r.report ->> 'ExitCode') IS NOT DISTINCT FROM j.exit_code::text
        WHERE j.job_status = 4
        GROUP BY j.cluster_id, j.proc_id
        HAVING count(DISTINCT e.event_id) <> 1 OR count(DISTINCT r.run_id) <> 1
    """,
    "the stream has a job's events in the order of their numbers": """
        SELECT cluster_id || '.' || proc_id AS job, event_id
        FROM (
            SELECT e.*, lag(coalesce(batch, 9223372036854775807)) OVER (PARTITION BY cluster_id, proc_id ORDER BY event_id) AS before
            FROM fetchwork.event AS e
        ) AS e
        WHERE batch < before
    """,
    "replaying the events gives the table": """
        WITH replayed AS (
            SELECT DISTINCT ON (cluster_id, proc_id) cluster_id, proc_id,
                CASE event_type
                    WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 4 THEN 1 WHEN 5 THEN 4 WHEN 9 THEN 3 WHEN 10 THEN 7 WHEN 11 THEN 2 WHEN 12 THEN 5
                    -- released while its run was still ending: Running in name until it has ended
                    WHEN 13 THEN CASE WHEN info @> '{"RunEnding": true}' THEN 2 ELSE 1 END
                END AS status
            FROM fetchwork.event
            WHERE event_type <> 6
            ORDER BY cluster_id, proc_id, event_id DESC
        ),
        known AS (
            SELECT cluster_id, proc_id, job_status FROM fetchwork.job
            UNION ALL
            SELECT cluster_id, proc_id, job_status FROM fetchwork.job_history
        )
        SELECT cluster_id || '.' || proc_id AS job, k.job_status AS known, r.status AS replayed
        FROM known AS k
        FULL JOIN replayed AS r USING (cluster_id, proc_id)
        WHERE k.job_status IS DISTINCT FROM r.status
            -- that of an end comes when the files are back, be it of a run that was taken for lost
            AND NOT (k.job_status = 6 AND r.status IN (1, 2, 7))
            -- the event of a hold or removal comes when the run has ended
            AND NOT (
                k.job_status IN (3, 5) AND r.status IN (2, 7)
                AND EXISTS (SELECT FROM fetchwork.run AS w WHERE w.cluster_id = k.cluster_id AND w.proc_id = k.proc_id)
            )
    """,
}


def violations(connection: psycopg.Connection) -> list[str]:
    """One line for each violation, at one moment; the connection is in autocommit and may read the tables."""
    found = []
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        for name, statement in INVARIANTS.items():
            cursor = connection.execute(statement)
            columns = [column.name for column in cursor.description or ()]
            for row in cursor:
                told = ", ".join(f"{column} {value}" for column, value in zip(columns, row, strict=True))
                found.append(f"{name}: {told}")
    finally:
        connection.execute("ROLLBACK")
    return found
