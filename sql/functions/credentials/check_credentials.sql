-- Raises FWINV for a whole job ad that requests credentials that its Owner has not stored, as condor_submit
-- refuses credentials that its credd does not know; or whose SERVICE_oauth_permissions or
-- SERVICE_oauth_resource, which are in FetchWorkOAuthRequests (name, permissions, resource, name, ...),
-- differ from those of the stored credential (cred_matches in HTCondor's store_cred.cpp). The caller has
-- checked the right to name the Owner.
CREATE OR REPLACE FUNCTION fetchwork.check_credentials(ad jsonb)
RETURNS void
LANGUAGE plpgsql
STABLE
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
        RAISE EXCEPTION 'credential % of Owner % is not stored; add it first: fetchwork credential add %',
            quote_nullable(lacking), quote_nullable(check_credentials.ad ->> 'Owner'), lacking
            USING ERRCODE = 'FWINV';
    END IF;
    -- requested and stored words are split once each: a job may request as many as fit into an ad
    WITH asked AS MATERIALIZED (
        SELECT
            max(a.word) FILTER (WHERE a.n % 3 = 1) AS name,
            max(a.word) FILTER (WHERE a.n % 3 = 2) AS permissions,
            max(a.word) FILTER (WHERE a.n % 3 = 0) AS resource
        FROM jsonb_array_elements_text(
            CASE jsonb_typeof(check_credentials.ad -> 'FetchWorkOAuthRequests')
                WHEN 'array' THEN check_credentials.ad -> 'FetchWorkOAuthRequests'
                ELSE '[]'
            END
        ) WITH ORDINALITY AS a (word, n)
        GROUP BY (a.n - 1) / 3
    ),

    stored AS MATERIALIZED (
        SELECT c.name, s.what, s.said, fetchwork.words_of(coalesce(s.said, '')) AS words
        FROM fetchwork.credential AS c
        CROSS JOIN LATERAL (
            VALUES ('permissions', c.permissions), ('resource', c.resource)
        ) AS s (what, said)
        WHERE c.owner = check_credentials.ad ->> 'Owner' AND c.name IN (SELECT a.name FROM asked AS a)
    )

    SELECT e.name, e.what, e.said AS asked, s.said AS stored
    INTO other
    FROM (
        SELECT a.name, w.what, w.said, fetchwork.words_of(w.said) AS words
        FROM asked AS a
        CROSS JOIN LATERAL (
            VALUES ('permissions', a.permissions), ('resource', a.resource)
        ) AS w (what, said)
        OFFSET 0
    ) AS e
    JOIN stored AS s ON s.name = e.name AND s.what = e.what
    WHERE e.words <> '{}' AND e.words <> s.words
    ORDER BY e.name, e.what
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'credential % of Owner % was found, but did not match the requested % %, it has %; '
            'add it again: fetchwork credential add --%',
            quote_nullable(other.name), quote_nullable(check_credentials.ad ->> 'Owner'), other.what,
            quote_nullable(left(other.asked, 200)), quote_nullable(left(coalesce(other.stored, ''), 200)),
            other.what USING ERRCODE = 'FWINV';
    END IF;
END
$$;
