-- 0003: find the jobs of an event log by the log's path.

INSERT INTO fetchwork.migration (version, name) VALUES (3, 'event_logs');

-- only rows that have the attribute are in them, so other jobs pay nothing
CREATE INDEX cluster_user_log ON fetchwork.cluster ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';
CREATE INDEX job_user_log ON fetchwork.job ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';
CREATE INDEX job_history_user_log ON fetchwork.job_history ((ad ->> 'UserLog')) WHERE ad ? 'UserLog';
