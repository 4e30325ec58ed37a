-- The names, in lower case, of the attributes that matching reads in an ad: those that it always reads, every
-- Request*, and every word of these attributes' expressions, and so on. Words that are no attributes of the
-- ad are included: an ad with more attributes matches alike if none of their names is here or begins with
-- "request".
CREATE OR REPLACE FUNCTION fetchwork.matched_names(ad jsonb)
RETURNS text[]
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    names text[];
    more text[];
BEGIN
    SELECT ARRAY[
            'requirements', 'rank', 'concurrencylimits', 'owner', 'accountinggroup', 'acctgroup',
            'jobuniverse', 'fetchworkqueue',
            -- of slots that can run a job with files, in a container or with credentials
            'fetchworkfiles', 'wantsif', 'wantdockerimage', 'wantsandboximage', 'singularityimage',
            'oauthservicesneeded'
        ]
        || CASE WHEN ad -> 'JobUniverse' = '7' THEN ARRAY['fetchworkaccesspoint'] ELSE '{}' END
        || ARRAY(SELECT lower(e.key) FROM jsonb_object_keys(ad) AS e (key) WHERE lower(e.key) LIKE 'request%')
    INTO names;
    LOOP
        SELECT array_agg(DISTINCT word.name)
        INTO more
        FROM jsonb_each(ad) AS e
        CROSS JOIN LATERAL unnest(fetchwork.expression_names(e.value)) AS word (name)
        WHERE lower(e.key) = ANY (names) AND word.name <> ALL (names);
        IF more IS NULL THEN
            RETURN names;
        END IF;
        names := names || more;
    END LOOP;
END
$$;
