-- Queues, and what each allows.
CREATE OR REPLACE VIEW fetchwork.queues AS
SELECT
    q.name, q.paused, q.draining, q.max_running AS maxrunning, q.preempt_ratio AS preemptratio,
    q.preempt_prio AS preemptprio
FROM fetchwork.queue AS q;
