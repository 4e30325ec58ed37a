-- The requests of idle jobs: how many jobs request the same, of how many autoclusters, and when the job that
-- has waited longest was submitted (null: all of them are deferred). For programs that start machines.
CREATE OR REPLACE VIEW fetchwork.demand_now WITH (security_barrier) AS
SELECT
    a.queue AS fetchworkqueue,
    a.request_cpus AS requestcpus,
    a.request_memory_mib AS requestmemory,
    a.request_disk_kib AS requestdisk,
    a.request_gpus AS requestgpus,
    a.ad ->> 'Requirements' AS requirements,
    sum(t.idle)::bigint AS idlejobs,
    count(*) AS autoclusters,
    extract(epoch FROM min(longest.q_date))::bigint AS oldestqdate
FROM fetchwork.totals AS t
JOIN fetchwork.autocluster AS a ON a.autocluster_id = t.autoclusterid
LEFT JOIN LATERAL (
    SELECT min(head.q_date) AS q_date
    FROM fetchwork.demand AS d
    CROSS JOIN LATERAL (
        SELECT j.q_date
        FROM fetchwork.waiting AS w
        JOIN fetchwork.job AS j ON j.cluster_id = w.cluster_id AND j.proc_id = w.proc_id
        WHERE w.autocluster_id = d.autocluster_id AND w.job_prio = d.job_prio
        ORDER BY w.position
        LIMIT 1
    ) AS head
    WHERE d.autocluster_id = a.autocluster_id
) AS longest ON true
WHERE t.idle > 0
GROUP BY 1, 2, 3, 4, 5, 6;
