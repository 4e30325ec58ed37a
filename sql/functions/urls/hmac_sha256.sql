-- HMAC-SHA256 (RFC 2104) of a message; PostgreSQL has it only in an extension.
CREATE OR REPLACE FUNCTION fetchwork.hmac_sha256(key bytea, said bytea)
RETURNS bytea
LANGUAGE plpgsql
IMMUTABLE
AS $$
DECLARE
    inner_key bytea := CASE WHEN octet_length(key) > 64 THEN sha256(key) ELSE key END;
    outer_key bytea;
BEGIN
    inner_key := inner_key || decode(repeat('00', 64 - octet_length(inner_key)), 'hex');
    outer_key := inner_key;
    FOR i IN 0..63 LOOP
        outer_key := set_byte(outer_key, i, get_byte(outer_key, i) # 92);
        inner_key := set_byte(inner_key, i, get_byte(inner_key, i) # 54);
    END LOOP;
    RETURN sha256(outer_key || sha256(inner_key || said));
END
$$;
