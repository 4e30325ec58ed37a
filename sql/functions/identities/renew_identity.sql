-- Gives the identity of the session's host a new SCRAM verifier and a new end. generation: the number of the
-- identity that the host has. A host keeps the new password before it calls this, so a repeated call with the
-- same verifier gets the same answer.
-- An identity that exists twice (a stolen file, a copied machine) shows at the second copy's renewal, whose
-- generation is over: neither gets jobs from then on ("copied"), and running jobs go on. So does a machine
-- that was set back. An administrator decides (admit_host, revoke_host).
-- Errors: FWDEN (no identity, or it is over or revoked). Locks: the identity.
CREATE OR REPLACE FUNCTION fetchwork.renew_identity(generation integer, verifier text)
RETURNS TABLE (generation_now integer, valid_until timestamptz, copied boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    own fetchwork.host_identity;
    digest bytea := sha256(convert_to(renew_identity.verifier, 'UTF8'));
BEGIN
    PERFORM fetchwork.require_host(fetchwork.own_host());
    PERFORM fetchwork.require_verifier(renew_identity.verifier);
    SELECT i.*
    INTO own
    FROM fetchwork.host_identity AS i
    WHERE i.role = session_user
    FOR UPDATE;
    IF NOT FOUND OR own.revoked_at IS NOT NULL OR own.valid_until < clock_timestamp() THEN
        RAISE EXCEPTION 'role % has no identity to renew', quote_nullable(session_user)
            USING ERRCODE = 'FWDEN';
    END IF;
    IF own.verifier = digest OR own.copied_at IS NOT NULL THEN
        -- repeated, or known to be copied
        NULL;
    ELSIF own.readmitted OR own.generation = renew_identity.generation THEN
        own.generation := greatest(own.generation, renew_identity.generation) + 1;
        own.valid_until := clock_timestamp() + fetchwork.setting_time('host_identity');
        EXECUTE format(
            'ALTER ROLE %I PASSWORD %L VALID UNTIL %L', own.role, renew_identity.verifier, own.valid_until
        );
        UPDATE fetchwork.host_identity AS i
        SET generation = own.generation,
            verifier = digest,
            renewed_at = clock_timestamp(),
            readmitted = false,
            valid_until = own.valid_until
        WHERE i.host_id = own.host_id;
        -- an access point has no beat
        UPDATE fetchwork.host AS h
        SET seen_at = clock_timestamp()
        WHERE h.host_id = own.host_id AND h.access_point;
    ELSE
        own.copied_at := clock_timestamp();
        UPDATE fetchwork.host_identity AS i
        SET copied_at = own.copied_at
        WHERE i.host_id = own.host_id;
        RAISE log 'fetchwork: the identity of host % is used twice: % was renewed, and % asks again',
            own.host_id, own.generation, renew_identity.generation;
    END IF;
    generation_now := own.generation;
    valid_until := own.valid_until;
    copied := own.copied_at IS NOT NULL;
    RETURN NEXT;
END
$$;
