-- The jobs in the queue and those that have ended, for functions and other views; no role reads it.
CREATE OR REPLACE VIEW fetchwork.known_job AS
SELECT j.cluster_id, j.proc_id, j.owner, j.q_date, j.job_prio, j.queue, j.num_completions, j.ad
FROM fetchwork.job AS j
UNION ALL
SELECT h.cluster_id, h.proc_id, h.owner, h.q_date, h.job_prio, h.queue, h.num_completions, h.ad
FROM fetchwork.job_history AS h;
