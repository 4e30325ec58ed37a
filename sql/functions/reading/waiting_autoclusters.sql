-- Each waiting (autocluster, JobPrio) in one of these queues (NULL: in any), with its first job and the limit
-- that blocks it, if any. For people who ask which jobs a slot would get (`fetchwork match`) or who is ahead
-- of a job (`fetchwork q --better-analyze`). The submitters of waiting jobs are no secret among the users of
-- a queue, as in HTCondor; a job's id is shown only to a caller that may see the job.
CREATE OR REPLACE FUNCTION fetchwork.waiting_autoclusters(queues text [] DEFAULT NULL)
RETURNS TABLE (
    autocluster_id integer,
    job_prio integer,
    queue text,
    submitter text,
    first_job text,
    "position" bigint,
    limited boolean,
    blocked text
)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH wanted AS (
        SELECT DISTINCT d.autocluster_id, d.job_prio
        FROM fetchwork.demand AS d
        JOIN fetchwork.autocluster AS s ON s.autocluster_id = d.autocluster_id AND s.access_point IS NULL
    ),
    limited AS MATERIALIZED (
        SELECT l.autocluster_id
        FROM fetchwork.limited_autoclusters(ARRAY(SELECT k.autocluster_id FROM wanted AS k))
            AS l (autocluster_id)
    ),
    reader AS (
        SELECT
            fetchwork.sees_all(fetchwork.invoker()) AS sees_all,
            fetchwork.own_owners(fetchwork.invoker()) AS owners
    )
    SELECT
        w.autocluster_id, w.job_prio, a.queue, a.submitter,
        CASE
            WHEN reader.sees_all OR a.owner = ANY (reader.owners)
                THEN fetchwork.job_id(f.cluster_id, f.proc_id)
        END,
        f.position,
        of_it.limited,
        CASE WHEN of_it.limited OR q.paused THEN fetchwork.blocked_by(w.autocluster_id) END
    FROM wanted AS w
    CROSS JOIN reader
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = w.autocluster_id
    JOIN fetchwork.queue AS q ON q.name = a.queue
    CROSS JOIN LATERAL (
        SELECT w.autocluster_id IN (SELECT l.autocluster_id FROM limited AS l) AS limited
    ) AS of_it
    -- one search of the index; demand may be there without a waiting job
    CROSS JOIN LATERAL (
        SELECT h.cluster_id, h.proc_id, h.position
        FROM fetchwork.waiting AS h
        WHERE h.autocluster_id = w.autocluster_id AND h.job_prio = w.job_prio
        ORDER BY h.position
        LIMIT 1
    ) AS f
    WHERE waiting_autoclusters.queues IS NULL OR a.queue = ANY (waiting_autoclusters.queues);
END;
