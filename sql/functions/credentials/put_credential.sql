-- Stores a sealed credential of an owner, replacing one of the same name; returns its version. Runs with the
-- old one get the new one from their agents. The caller says whether agents can renew it, and when it
-- expires. A credential that comes while another key is published may still be sealed to the previous key,
-- which hosts keep until no credential needs it (sealed_otherwise).
-- Errors: FWDEN (another's Owner), FWINV (the name, the size, the time, the number, not the current key).
-- Locks: the row; the foreign key keeps its key.
CREATE OR REPLACE FUNCTION fetchwork.put_credential(
    owner text,
    name text,
    key_id text,
    sealed bytea,
    permissions text DEFAULT NULL,
    resource text DEFAULT NULL,
    renewable boolean DEFAULT false,
    expires_at timestamptz DEFAULT NULL
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most bigint := fetchwork.setting_value('max_credentials');
    stored bigint;
BEGIN
    PERFORM fetchwork.require_owner(put_credential.owner, 'add or delete credentials');
    IF coalesce(put_credential.name !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$', true) THEN
        RAISE EXCEPTION '% is not the name of a credential; allowed: letters, digits, _ . -, at most 128',
            quote_nullable(left(put_credential.name, 60)) USING ERRCODE = 'FWINV';
    END IF;
    IF coalesce(octet_length(put_credential.sealed), 0) NOT BETWEEN 1 AND 65536
        OR octet_length(coalesce(permissions, '')) > 2000 OR octet_length(coalesce(resource, '')) > 2000
    THEN
        RAISE EXCEPTION 'a credential is too long; allowed: 65536 bytes sealed, 2000 of permissions and '
            'resource'
            USING ERRCODE = 'FWINV';
    END IF;
    -- agents, which read the credentials of all owners at once, can't represent other years
    IF put_credential.expires_at NOT BETWEEN '1970-01-01 00:00+00' AND '9999-01-01 00:00+00' THEN
        RAISE EXCEPTION 'a credential can''t expire at %; allowed: 1970-01-01 to 9999-01-01',
            put_credential.expires_at USING ERRCODE = 'FWINV';
    END IF;
    IF NOT EXISTS (
        SELECT FROM fetchwork.credential_key AS k
        WHERE k.key_id = put_credential.key_id AND k.current
    ) THEN
        RAISE EXCEPTION 'the key that the credential is sealed to is not the current one; add it again'
            USING ERRCODE = 'FWINV';
    END IF;
    IF (
        SELECT count(*)
        FROM fetchwork.credential AS c
        WHERE c.owner = put_credential.owner AND c.name <> put_credential.name
    ) >= most THEN
        RAISE EXCEPTION 'Owner % has % credentials already; allowed: % (setting max_credentials)',
            quote_nullable(put_credential.owner), most, most USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.credential AS c (
        owner, name, key_id, sealed, permissions, resource, renewable, expires_at, stored_by
    )
    VALUES (
        put_credential.owner, put_credential.name, put_credential.key_id, put_credential.sealed,
        put_credential.permissions, put_credential.resource, put_credential.renewable,
        put_credential.expires_at, fetchwork.asker()
    )
    ON CONFLICT ON CONSTRAINT credential_pkey DO UPDATE SET
        version = excluded.version,
        key_id = excluded.key_id,
        sealed = excluded.sealed,
        permissions = excluded.permissions,
        resource = excluded.resource,
        renewable = excluded.renewable,
        expires_at = excluded.expires_at,
        stored_at = now(),
        stored_by = excluded.stored_by,
        renewed_at = NULL,
        renewing_until = NULL,
        renewing_run = NULL,
        renewing_token = NULL
    RETURNING c.version
    INTO stored;
    RETURN stored;
END
$$;
