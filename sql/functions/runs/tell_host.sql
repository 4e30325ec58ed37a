-- Notifies a host's agent that runs of its host must end, stop or go on; it asks which (hosts/beat.sql). The
-- payload on the channel fetchwork_work is ["!", host_id]. PostgreSQL sends equal payloads of a transaction
-- once, so removing a thousand running jobs sends one notification for each host. Only a hint: any role may
-- send one, and an agent that misses it learns of it from its next beat.
CREATE OR REPLACE FUNCTION fetchwork.tell_host(host_id integer)
RETURNS void
LANGUAGE sql
RETURN fetchwork.notify_agents(json_build_array('!', host_id)::text);
