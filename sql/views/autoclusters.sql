-- Distinct sets of the attributes that matching reads.
CREATE OR REPLACE VIEW fetchwork.autoclusters WITH (security_barrier) AS
SELECT
    a.autocluster_id AS autoclusterid,
    a.owner,
    a.submitter,
    a.queue AS fetchworkqueue,
    a.request_cpus AS requestcpus,
    a.request_memory_mib AS requestmemory,
    a.request_disk_kib AS requestdisk,
    a.request_gpus AS requestgpus,
    a.concurrency_limits AS concurrencylimits,
    a.ad
FROM fetchwork.autocluster AS a
WHERE (SELECT fetchwork.sees_all(current_user))
    OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
