-- A SHA-256 in hex as bytes. Errors: FWINV (not a SHA-256).
CREATE OR REPLACE FUNCTION fetchwork.checked_sha256(hash text)
RETURNS bytea
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    IF hash IS NULL OR hash !~ '^[0-9a-f]{64}$' THEN
        RAISE EXCEPTION '% is not a SHA-256; allowed: 64 hexadecimal digits',
            quote_nullable(left(hash, 80)) USING ERRCODE = 'FWINV';
    END IF;
    RETURN decode(hash, 'hex');
END
$$;
