-- Refuses (SQLSTATE FWINV) a whole job ad that asks for credentials of its Owner that are not stored, as
-- condor_submit refuses one that its credd knows nothing of; or that asks for others than were stored: with
-- SERVICE_oauth_permissions or SERVICE_oauth_resource in its description, which are in FetchWorkOAuthRequests
-- (name, permissions, resource, name, ...), what was stored has to say the same (cred_matches in HTCondor's
-- store_cred.cpp). The caller has looked who may name the Owner.
CREATE OR REPLACE FUNCTION fetchwork.check_credentials(ad jsonb)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lacking text;
    other record;
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
    SELECT e.name, e.what, e.asked, e.stored
    INTO other
    FROM (
        SELECT
            c.name,
            CASE a.n % 3 WHEN 2 THEN 'permissions' ELSE 'resource' END AS what,
            a.word AS asked,
            CASE a.n % 3 WHEN 2 THEN c.permissions ELSE c.resource END AS stored
        FROM jsonb_array_elements_text(
            CASE jsonb_typeof(check_credentials.ad -> 'FetchWorkOAuthRequests')
                WHEN 'array' THEN check_credentials.ad -> 'FetchWorkOAuthRequests'
                ELSE '[]'
            END
        ) WITH ORDINALITY AS a (word, n)
        JOIN fetchwork.credential AS c ON c.owner = check_credentials.ad ->> 'Owner'
            AND c.name = check_credentials.ad -> 'FetchWorkOAuthRequests' ->> ((a.n - 1) / 3 * 3)::integer
        WHERE a.n % 3 <> 1
    ) AS e
    WHERE fetchwork.words_of(e.asked) <> '{}'
        AND fetchwork.words_of(e.asked) <> fetchwork.words_of(coalesce(e.stored, ''))
    ORDER BY e.name, e.what
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'credential %L of Owner %L was found, but did not match the requested %s %L, it has %L; '
                'add it again: fetchwork credential add --%s',
                other.name, check_credentials.ad ->> 'Owner', other.what, left(other.asked, 200),
                left(coalesce(other.stored, ''), 200), other.what
            );
    END IF;
END
$$;
