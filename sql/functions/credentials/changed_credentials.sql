-- The credentials of a host's live runs that must be replaced: stored anew or renewed since, or renewable and
-- about to expire within within_s seconds. A row for each; none for a run that started within settled_s,
-- whose hook may still be writing the version that it got. Each is sealed as in run_credentials. Locks
-- nothing.
CREATE OR REPLACE FUNCTION fetchwork.changed_credentials(
    host_id integer,
    within_s double precision,
    settled_s double precision
)
RETURNS TABLE (
    run_id bigint,
    token uuid,
    directory text,
    versions jsonb,
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
BEGIN
    PERFORM fetchwork.require_host(changed_credentials.host_id);
    RETURN QUERY
    SELECT
        r.run_id, r.token, r.credentials ->> 'directory', r.credentials -> 'versions', c.owner, c.name,
        c.version, coalesce(h.key_id, c.key_id), coalesce(h.sealed, c.sealed), c.renewable, c.expires_at
    FROM fetchwork.run AS r
    CROSS JOIN LATERAL fetchwork.job_of(r.cluster_id, r.proc_id) AS j
    CROSS JOIN LATERAL jsonb_each_text(r.credentials -> 'versions') AS v (name, version)
    JOIN fetchwork.credential AS c ON c.owner = j.owner AND c.name = v.name
    LEFT JOIN LATERAL fetchwork.host_copy(c.owner, c.name, c.version) AS h ON true
    WHERE r.host_id = changed_credentials.host_id
        AND r.credentials IS NOT NULL
        AND r.started_at <= now() - make_interval(secs => changed_credentials.settled_s)
        AND (
            c.version <> v.version::bigint
            OR (
                c.renewable
                AND c.expires_at < now() + make_interval(secs => changed_credentials.within_s)
            )
        )
    ORDER BY r.run_id, c.name;
END
$$;
