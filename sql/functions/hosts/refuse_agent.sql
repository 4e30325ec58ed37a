-- Raises the error (FWTWO) for an agent whose host has another live one.
CREATE OR REPLACE FUNCTION fetchwork.refuse_agent(host fetchwork.host, agent_id uuid, location text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'host % has another agent: % (%), whose lease lasts % s more; this one is % (%); if they '
        'are two hosts, give one of them another name (host.name)',
        (refuse_agent.host).name, (refuse_agent.host).agent_id,
        coalesce((refuse_agent.host).agent_location, 'location not told'),
        greatest(0, ceil(extract(epoch FROM (refuse_agent.host).lease_until - clock_timestamp()))),
        refuse_agent.agent_id, coalesce(refuse_agent.location, 'location not told') USING ERRCODE = 'FWTWO';
END
$$;
