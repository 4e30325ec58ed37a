-- Late clusters, in the words of condor_q -factory: their limits, the jobs that were made, and those present.
CREATE OR REPLACE VIEW fetchwork.factories WITH (security_barrier) AS
SELECT
    f.cluster_id AS clusterid,
    f.owner,
    extract(epoch FROM c.submitted_at)::bigint AS qdate,
    c.procs AS totalsubmitprocs,
    coalesce(f.max_materialize, f.jobs) AS jobmaterializelimit,
    f.max_idle AS jobmaterializemaxidle,
    f.next_proc AS jobmaterializenextprocid,
    CASE
        WHEN f.next_proc < f.jobs THEN f.next_proc / f.step
        WHEN f.variables > 0 THEN -1
        ELSE 0
    END AS jobmaterializenextrow,
    f.paused AS jobmaterializepaused,
    f.reason AS jobmaterializepausereason,
    CASE WHEN f.variables > 0 THEN f.rows ELSE 1 END AS jobfactoryitemcount,
    f.step AS jobfactorystepsize,
    (SELECT count(*) FROM fetchwork.job AS j WHERE j.cluster_id = f.cluster_id) AS jobspresent,
    (
        SELECT count(*)
        FROM fetchwork.job AS j
        WHERE j.cluster_id = f.cluster_id AND j.job_status = 1
    ) AS jobsidle,
    (
        SELECT count(*)
        FROM fetchwork.job AS j
        WHERE j.cluster_id = f.cluster_id AND j.job_status IN (2, 6, 7)
    ) AS jobsrunning,
    (
        SELECT count(*)
        FROM fetchwork.job AS j
        WHERE j.cluster_id = f.cluster_id AND j.job_status = 5
    ) AS jobsheld,
    c.ad
FROM fetchwork.factory AS f
JOIN fetchwork.cluster AS c ON c.cluster_id = f.cluster_id
WHERE (SELECT fetchwork.sees_all(current_user))
    OR f.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
