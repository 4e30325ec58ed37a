-- For the doctor of a joined host, which reads no view: the state of the session's own host. queues: those
-- that are there and that it was invited for. owners: of jobs that wait in these. claims_wait: all claims
-- wait since the database has moved (note_move). slots: as reported, with the seconds since the last fetch;
-- without dynamic ones. Errors: FWDEN (the identity is over or revoked).
CREATE OR REPLACE FUNCTION fetchwork.own_host_state()
RETURNS TABLE (
    host text,
    copied boolean,
    valid_until timestamptz,
    max_ad_bytes numeric,
    claims_wait boolean,
    black_hole text,
    queues text [],
    owners text [],
    slots jsonb,
    policies_rest boolean
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own integer := fetchwork.own_host();
BEGIN
    PERFORM fetchwork.require_host(own);
    RETURN QUERY
    SELECT
        h.name, i.copied_at IS NOT NULL, i.valid_until, fetchwork.setting_value('max_ad_bytes'),
        EXISTS (SELECT FROM fetchwork.unsettled),
        CASE WHEN h.black_hole_since IS NOT NULL THEN coalesce(h.bad_reason, '') END,
        ARRAY(
            SELECT q.name
            FROM fetchwork.queue AS q
            WHERE v.queues IS NULL OR q.name = ANY (v.queues)
            ORDER BY q.name
        ),
        ARRAY(
            SELECT DISTINCT a.owner
            FROM fetchwork.demand AS d
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = d.autocluster_id
            WHERE v.queues IS NULL OR a.queue = ANY (v.queues)
            ORDER BY a.owner
        ),
        (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                'name', s.name, 'state', s.state,
                'ago_s', extract(epoch FROM clock_timestamp() - s.last_fetch_at)
            ) ORDER BY s.name), '[]')
            FROM fetchwork.slot AS s
            WHERE s.host_id = own AND s.slot_type IS DISTINCT FROM 'Dynamic'
        ),
        fetchwork.policies_rest()
    FROM fetchwork.host AS h
    JOIN fetchwork.host_identity AS i ON i.host_id = h.host_id
    JOIN fetchwork.invitation AS v ON v.number = i.invitation
    WHERE h.host_id = own;
END
$$;
