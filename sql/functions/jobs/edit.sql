-- Changes attributes of jobs that are in the queue (condor_qedit): changes is an object in HTCondor's JSON
-- form, null removes an attribute. What matching looks at may change too: an Idle job then moves to its
-- new autocluster. Owner can't be changed. Returns how many jobs were changed.
-- Errors: as for submit.
-- Locks: the jobs, in the order of their ids (selected_jobs).
CREATE OR REPLACE FUNCTION fetchwork.edit(jobs text [], changes jsonb, owner text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    job fetchwork.job;
    shared jsonb;
    new_own jsonb;
    whole jsonb;
    checked jsonb := fetchwork.checked_ad(changes);
    new_autocluster integer;
    new_prio integer;
    new_batch integer;
    waited boolean;
    edited integer := 0;
    refused text;
BEGIN
    SELECT k.key
    INTO refused
    FROM jsonb_object_keys(changes) AS k (key)
    WHERE lower(k.key) = 'owner'
        OR (
            NOT EXISTS (SELECT FROM jsonb_object_keys(checked) AS c (key) WHERE lower(c.key) = lower(k.key))
            -- checked_ad drops these where they have no effect
            AND lower(k.key) NOT IN (
                'onexithold', 'periodichold', 'periodicrelease', 'periodicremove', 'periodicvacate',
                'onexitremove', 'rank'
            )
        )
    LIMIT 1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format('attribute "%s" can''t be edited; allowed: what a submitter sets', refused);
    END IF;
    FOR job IN
        SELECT s.*
        FROM fetchwork.selected_jobs(jobs, edit.owner, role) AS s
        WHERE s.job_status <> 3
    LOOP
        SELECT c.ad
        INTO shared
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = job.cluster_id;
        -- in the spelling that the job has already, or else HTCondor's
        SELECT job.ad || coalesce(jsonb_object_agg(coalesce(k.key, a.name, e.key), e.value), '{}')
        INTO new_own
        FROM jsonb_each(changes) AS e
        LEFT JOIN jsonb_object_keys(shared || job.ad) AS k (key) ON lower(k.key) = lower(e.key)
        LEFT JOIN fetchwork.attribute AS a ON a.key = lower(e.key);
        whole := jsonb_strip_nulls(shared || new_own);
        PERFORM fetchwork.checked_job(whole, role);
        new_autocluster := fetchwork.ensure_autocluster(whole, job);
        new_prio := coalesce((whole ->> 'JobPrio')::integer, 0);
        new_batch := CASE
            WHEN jsonb_typeof(whole -> 'JobBatchName') = 'string'
                THEN fetchwork.ensure_batch(job.owner, whole ->> 'JobBatchName')
        END;
        waited := job.job_status = 1 AND fetchwork.dequeue(job);
        UPDATE fetchwork.job AS j
        SET ad = new_own,
            autocluster_id = new_autocluster,
            batch_id = new_batch,
            job_prio = new_prio,
            queue = coalesce(whole ->> 'FetchWorkQueue', 'default'),
            has_policy = fetchwork.has_policy(whole)
        WHERE j.cluster_id = job.cluster_id AND j.proc_id = job.proc_id;
        -- counts and limits take the live run's autocluster for its job's
        UPDATE fetchwork.run AS r
        SET autocluster_id = new_autocluster
        WHERE r.cluster_id = job.cluster_id
            AND r.proc_id = job.proc_id
            AND r.autocluster_id <> new_autocluster;
        IF new_autocluster <> job.autocluster_id OR new_batch IS DISTINCT FROM job.batch_id THEN
            INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, held)
            VALUES
                (job.autocluster_id, job.batch_id, -1, CASE WHEN job.job_status = 5 THEN -1 ELSE 0 END),
                (new_autocluster, new_batch, 1, CASE WHEN job.job_status = 5 THEN 1 ELSE 0 END);
        END IF;
        IF waited THEN
            -- at the same position, so that an edit does not cost the job its turn
            INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
            VALUES (new_autocluster, new_prio, job.position, job.cluster_id, job.proc_id);
            PERFORM fetchwork.ensure_demand(new_autocluster, new_prio);
        END IF;
        edited := edited + 1;
    END LOOP;
    RETURN edited;
END
$$;
