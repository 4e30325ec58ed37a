-- Refuses (SQLSTATE FWINV) a whole job ad that asks for credentials of its Owner that are not stored, as
-- condor_submit refuses one that its credd knows nothing of. The caller has looked who may name the Owner.
CREATE OR REPLACE FUNCTION fetchwork.check_credentials(ad jsonb)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lacking text;
BEGIN
    SELECT min(n.name)
    INTO lacking
    FROM unnest(fetchwork.needed_credentials(check_credentials.ad)) AS n (name)
    WHERE NOT EXISTS (
        SELECT FROM fetchwork.credential AS c
        WHERE c.owner = check_credentials.ad ->> 'Owner' AND c.name = n.name
    );
    IF lacking IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'credential %L of Owner %L is not stored; add it first: fetchwork credential add %s',
                lacking, check_credentials.ad ->> 'Owner', lacking
            );
    END IF;
END
$$;
