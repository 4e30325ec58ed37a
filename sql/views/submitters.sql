-- Who uses how much, and whose job is next (condor_userprio).
CREATE OR REPLACE VIEW fetchwork.submitters AS
SELECT
    s.submitter AS name,
    s.prio_factor AS priorityfactor,
    s.usage AS weightedusage,
    s.real_prio AS realpriority,
    s.effective_prio AS priority,
    s.running AS runningjobs,
    t.max_running AS maxrunning,
    t.total_usage AS accumulatedusage
FROM fetchwork.shares() AS s
JOIN fetchwork.submitter AS t ON t.name = s.submitter;
