-- Notes the job attributes that the expressions of an agent's slots refer to (START = TARGET.Project == "x"),
-- 200 at most. A new name becomes part of every autocluster from now on; jobs in the queue that have it get
-- new autoclusters, so that a slot's refusal of one job does not count for the others. Returns how many names
-- were new.
-- Locks: the jobs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.note_significant(names text [])
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fresh text[];
    job fetchwork.job;
    moved integer;
BEGIN
    WITH added AS (
        INSERT INTO fetchwork.significant_attribute (key)
        SELECT DISTINCT lower(n)
        FROM unnest(names) AS n
        WHERE n ~ '^[A-Za-z_][A-Za-z0-9_]*$' AND length(n) <= 256
        -- in one order, so that two agents can't deadlock
        ORDER BY 1
        LIMIT greatest(0, 200 - (SELECT count(*) FROM fetchwork.significant_attribute))
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT array_agg(a.key)
    INTO fresh
    FROM added AS a;
    IF fresh IS NULL THEN
        RETURN 0;
    END IF;
    FOR job IN
        SELECT j.*
        FROM fetchwork.job AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        WHERE j.job_status NOT IN (3, 4)
            AND (
                -- every job has the attributes that the queue keeps
                EXISTS (
                    SELECT FROM fetchwork.attribute AS t
                    WHERE t.key = ANY (fresh) AND t.rule IN ('ours', 'unhonoured')
                )
                OR EXISTS (
                    SELECT FROM jsonb_object_keys(c.ad || j.ad) AS k (key)
                    WHERE lower(k.key) = ANY (fresh)
                )
            )
        ORDER BY j.cluster_id, j.proc_id
        FOR UPDATE OF j SKIP LOCKED
    LOOP
        moved := (
            SELECT fetchwork.ensure_autocluster(c.ad || job.ad, job)
            FROM fetchwork.cluster AS c
            WHERE c.cluster_id = job.cluster_id
        );
        CONTINUE WHEN moved = job.autocluster_id;
        INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held)
        VALUES
            (job.autocluster_id, job.batch_id, -1, CASE WHEN job.job_status = 5 THEN -1 ELSE 0 END),
            (moved, job.batch_id, 1, CASE WHEN job.job_status = 5 THEN 1 ELSE 0 END);
        IF fetchwork.dequeue(job) THEN
            INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
            VALUES (moved, job.job_prio, job.position, job.cluster_id, job.proc_id);
            PERFORM fetchwork.ensure_demand(moved, job.job_prio);
        END IF;
        UPDATE fetchwork.run AS r
        SET autocluster_id = moved
        WHERE r.cluster_id = job.cluster_id AND r.proc_id = job.proc_id;
        UPDATE fetchwork.job AS j
        SET autocluster_id = moved
        WHERE j.cluster_id = job.cluster_id AND j.proc_id = job.proc_id;
    END LOOP;
    RETURN cardinality(fresh);
END
$$;
