-- The owners whose jobs, claimed at "since" or later, have run on a host for longer than a quick failure
-- takes.
CREATE OR REPLACE FUNCTION fetchwork.runs_well(host_id integer, since timestamptz)
RETURNS TABLE (owner text)
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT a.owner
    FROM fetchwork.run AS r
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
    WHERE r.host_id = runs_well.host_id
        AND r.state = 'running'
        AND r.claimed_at >= runs_well.since
        AND r.started_at < clock_timestamp() - fetchwork.setting_time('quick_failure');
END;
