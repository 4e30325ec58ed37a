-- The sealed credentials that the job of a live run requests: one row for each name, with NULLs except in
-- owner and name if it is not stored. No row if the run is over or its job requests none. A joined host gets
-- the copy that is sealed to its own key, if there is one (want_credentials). Locks nothing.
-- Errors: FWTOK (another run's token).
CREATE OR REPLACE FUNCTION fetchwork.run_credentials(run_id bigint, token uuid)
RETURNS TABLE (
    owner text,
    name text,
    version bigint,
    key_id text,
    sealed bytea,
    renewable boolean,
    expires_at timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(run_credentials.run_id, run_credentials.token);
BEGIN
    RETURN QUERY
    SELECT
        j.owner, n.name, c.version, coalesce(h.key_id, c.key_id), coalesce(h.sealed, c.sealed), c.renewable,
        c.expires_at
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS k ON k.cluster_id = j.cluster_id
    CROSS JOIN LATERAL unnest(fetchwork.needed_credentials(k.ad || j.ad)) AS n (name)
    LEFT JOIN fetchwork.credential AS c ON c.owner = j.owner AND c.name = n.name
    LEFT JOIN LATERAL fetchwork.host_copy(c.owner, c.name, c.version) AS h ON true
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
END
$$;
