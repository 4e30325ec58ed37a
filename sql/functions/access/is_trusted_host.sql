-- Whether the session is that of a host which was invited as trusted.
CREATE OR REPLACE FUNCTION fetchwork.is_trusted_host()
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM fetchwork.host_identity AS i
        JOIN fetchwork.invitation AS v ON v.number = i.invitation
        WHERE i.host_id = fetchwork.own_host(copied => false) AND v.trusted
    );
END
$$;
