-- The submitters' use of the pool, and the order in which they get slots (condor_userprio).
CREATE OR REPLACE VIEW fetchwork.submitters AS
SELECT
    s.submitter AS name,
    s.prio_factor AS priorityfactor,
    s.usage AS weightedusage,
    s.real_prio AS realpriority,
    s.effective_prio AS priority,
    s.running AS runningjobs,
    t.max_running AS maxrunning,
    t.max_idle AS maxidle,
    t.max_autoclusters AS maxautoclusters,
    coalesce(t.total_usage, 0) AS accumulatedusage
FROM fetchwork.shares() AS s
LEFT JOIN fetchwork.submitter AS t ON t.name = s.submitter;
