-- Slots as their last fetch showed them, or, for a slot with a run, as the run shows it. Every role sees that
-- a slot is busy; the owner of its job, and the ad's attributes about it, are shown to readers that may see
-- the job.
CREATE OR REPLACE VIEW fetchwork.slots AS
SELECT
    s.name,
    h.name AS machine,
    CASE
        WHEN s.slot_type IS DISTINCT FROM 'Partitionable' AND r.state <> 'reserved' THEN 'Claimed'
        ELSE s.state
    END AS state,
    CASE
        WHEN s.slot_type IS DISTINCT FROM 'Partitionable' AND r.job_status = 7 THEN 'Suspended'
        WHEN s.slot_type IS DISTINCT FROM 'Partitionable' AND r.state <> 'reserved' THEN 'Busy'
        ELSE s.activity
    END AS activity,
    s.slot_type AS slottype,
    s.cpus,
    s.memory_mib AS memory,
    s.disk_kib AS disk,
    s.gpus,
    s.last_fetch_at,
    CASE
        WHEN s.slot_type IS DISTINCT FROM 'Partitionable' AND r.state <> 'reserved'
            THEN concat('offered ', fetchwork.job_id(r.cluster_id, r.proc_id))
        ELSE s.last_answer
    END AS last_answer,
    r.run_id AS runid,
    CASE
        WHEN (SELECT fetchwork.sees_all(current_user))
            OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
            THEN fetchwork.job_id(r.cluster_id, r.proc_id)
    END AS jobid,
    CASE
        WHEN (SELECT fetchwork.sees_all(current_user))
            OR a.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
            THEN a.owner
    END AS remoteowner,
    CASE
        WHEN (SELECT fetchwork.sees_all(current_user)) THEN s.ad
        ELSE s.ad - ARRAY[
            'RemoteOwner', 'RemoteUser', 'RemoteGroup', 'RemoteNegotiatingGroup', 'AccountingGroup', 'JobId',
            'GlobalJobId', 'ClientMachine', 'PublicClaimId', 'PublicClaimIds', 'ChildRemoteOwner',
            'ChildRemoteUser', 'ChildAccountingGroup', 'ChildJobId', 'ChildGlobalJobId'
        ]
    END AS ad,
    s.queues AS fetchworkqueues
FROM fetchwork.slot AS s
JOIN fetchwork.host AS h ON h.host_id = s.host_id
LEFT JOIN fetchwork.run AS r ON r.host_id = s.host_id AND r.slot = s.name
LEFT JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id;
