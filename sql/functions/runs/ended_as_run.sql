-- An ended run in the form of a live one, for functions that decide about its job later.
CREATE OR REPLACE FUNCTION fetchwork.ended_as_run(ended fetchwork.run_history)
RETURNS fetchwork.run
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    exited fetchwork.run;
BEGIN
    exited.run_id := ended.run_id;
    exited.cluster_id := ended.cluster_id;
    exited.proc_id := ended.proc_id;
    exited.autocluster_id := ended.autocluster_id;
    exited.host_id := ended.host_id;
    exited.slot := ended.slot;
    exited.started_at := ended.started_at;
    exited.state := ended.state;
    exited.transfer := ended.transfer;
    RETURN exited;
END
$$;
