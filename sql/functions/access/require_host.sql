-- Raises FWDEN if the session may not act for this host. Every function that an agent calls with a host_id
-- begins with this; those that get a run and its token ask proves.
CREATE OR REPLACE FUNCTION fetchwork.require_host(host_id integer)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    IF NOT fetchwork.is_own_host(require_host.host_id) THEN
        RAISE EXCEPTION 'role % may not act for this host; allowed: %',
            quote_nullable(session_user),
            CASE
                WHEN fetchwork.must_join() THEN 'hosts that joined (`fetchwork host join`)'
                ELSE 'its own, as long as its identity is neither over nor revoked (`fetchwork host list`)'
            END
            USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
