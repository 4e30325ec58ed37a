-- The public key that credentials are sealed to now; no row if none was published. Every role may read it.
CREATE OR REPLACE FUNCTION fetchwork.sealing_key()
RETURNS TABLE (key_id text, public_key bytea)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT k.key_id, k.public_key
    FROM fetchwork.credential_key AS k
    WHERE k.current;
END;
