-- Puts one cluster of jobs into the queue and returns its id: job n gets the ad "common || procs[n]" and
-- ProcId n - 1. Every way to submit calls it (the other submit functions, CLI, Python), so it checks
-- everything. The common part is stored once; a million jobs that differ in their arguments cost a million
-- small rows and one autocluster. JobStatus 5 in the ad submits on hold (as "hold = true" in a submit
-- description).
-- cluster: an id from reserve_cluster, for ads that contain the id ($(ClusterId)), and for a cluster too
-- large for one call: the first call makes it, further calls of the same transaction append to it, with NULL
-- for common. NULL: a new id.
-- key: the caller's own name for this submission. The same key of the same Owner (that of the first job)
-- returns the first submission's cluster, for submission_days; the ads are not compared. While the first
-- call is under way, the second one waits.
-- A common ad with the attribute FetchWorkFactory makes a late cluster (begin_factory): procs are then the
-- items of its queue statement.
-- Errors: FWINV (an invalid ad), FWDEN (no right to name that Owner or accounting group, a draining queue,
-- more jobs than max_jobs_per_submission or max_jobs_per_owner, a ceiling of the submitter). Events: SUBMIT
-- (000) for each job, HELD (012).
-- Locks: KEY SHARE on demand rows, until commit.
CREATE OR REPLACE FUNCTION fetchwork.submit_cluster(
    common jsonb,
    procs jsonb [],
    cluster integer DEFAULT NULL,
    key text DEFAULT NULL
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    asking text := fetchwork.asker();
    its_owner text := coalesce(procs[1] ->> 'Owner', common ->> 'Owner');
    known integer;
    new_cluster integer;
    first_proc integer := 0;
    shared jsonb;
    common_on_hold boolean;
    plan jsonb;
    most_jobs bigint;
BEGIN
    plan := common -> 'FetchWorkFactory';
    common := common - 'FetchWorkFactory';
    IF coalesce(cardinality(procs), 0) = 0 THEN
        RAISE EXCEPTION 'there are no jobs to submit; allowed: one ad or more' USING ERRCODE = 'FWINV';
    END IF;
    SELECT
        fetchwork.setting_value('max_jobs_per_submission'),
        (
            SELECT s.cluster_id
            FROM fetchwork.submission AS s
            WHERE s.owner = its_owner AND s.key = submit_cluster.key
        )
    INTO most_jobs, known;
    -- before all checks: a limit that has been reached since does not change the answer
    IF known IS NOT NULL
        -- a name in another spelling may give another Owner
        AND its_owner = coalesce(
            fetchwork.attribute_of(procs[1], 'owner') #>> '{}',
            fetchwork.attribute_of(common, 'owner') #>> '{}'
        )
        AND (fetchwork.is_admin(role) OR its_owner = ANY (fetchwork.own_owners(role)))
    THEN
        RETURN known;
    END IF;
    IF cluster IS NOT NULL AND common IS NULL AND EXISTS (
        SELECT FROM fetchwork.factory AS f
        JOIN fetchwork.cluster AS c ON c.cluster_id = f.cluster_id
        WHERE f.cluster_id = submit_cluster.cluster AND c.submitted_by = asking AND c.submitted_at = now()
    ) THEN
        PERFORM fetchwork.add_items(cluster, procs);
        PERFORM fetchwork.materialize(cluster);
        RETURN cluster;
    END IF;
    IF cluster IS NOT NULL AND common IS NULL THEN
        -- only the transaction that made the cluster may append: others see the cluster after its commit
        SELECT
            c.cluster_id, c.ad,
            (SELECT max(j.proc_id) + 1 FROM fetchwork.job AS j WHERE j.cluster_id = c.cluster_id)
        INTO new_cluster, shared, first_proc
        FROM fetchwork.cluster AS c
        WHERE c.cluster_id = submit_cluster.cluster AND c.submitted_by = asking AND c.submitted_at = now();
        IF first_proc IS NULL THEN
            RAISE EXCEPTION 'cluster % was not made in this transaction; allowed: append right after making '
                'it',
                cluster USING ERRCODE = 'FWINV';
        END IF;
        -- on hold like the jobs before them
        SELECT j.job_status = 5
        INTO common_on_hold
        FROM fetchwork.job AS j
        WHERE j.cluster_id = new_cluster AND j.proc_id = 0;
        UPDATE fetchwork.cluster AS c
        SET procs = first_proc + cardinality(submit_cluster.procs)
        WHERE c.cluster_id = new_cluster;
    ELSE
        shared := fetchwork.checked_ad(common);
        common_on_hold := coalesce(fetchwork.attribute_of(common, 'jobstatus') = '5', false);
        DELETE FROM fetchwork.cluster_reservation AS r
        WHERE r.cluster_id = submit_cluster.cluster
            AND r.role = asking
            AND r.reserved_at >= now() - fetchwork.setting_time('cluster_reservation');
        IF cluster IS NOT NULL AND NOT FOUND THEN
            RAISE EXCEPTION 'cluster id % was not reserved; allowed: an unused one from '
                'fetchwork.reserve_cluster()',
                cluster USING ERRCODE = 'FWINV';
        END IF;
        INSERT INTO fetchwork.cluster (cluster_id, ad, procs, submitted_by)
        VALUES (coalesce(new_cluster, cluster, fetchwork.next_cluster()), shared, cardinality(procs), asking)
        RETURNING cluster_id INTO new_cluster;
    END IF;
    IF plan IS NOT NULL THEN
        RETURN fetchwork.begin_factory(new_cluster, shared, plan, procs, common_on_hold, role, key);
    END IF;
    IF first_proc + cardinality(procs) > most_jobs THEN
        RAISE EXCEPTION 'Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION: % jobs in one '
            'cluster; allowed: % (setting max_jobs_per_submission)',
            first_proc + cardinality(procs), most_jobs USING ERRCODE = 'FWDEN';
    END IF;
    RETURN fetchwork.add_jobs(new_cluster, shared, first_proc, procs, common_on_hold, role, key);
END
$$;
