-- An upper bound, in bytes, of the ad that FETCH_WORK will print for a job: what fetchwork adds (ids, token, the account three
-- times, lease: under 700 bytes) and each attribute that is not kept back. JSON's escapes are never shorter than ClassAd's; a
-- real may be printed with up to 24 digits; a nested value gains blanks.
CREATE OR REPLACE FUNCTION fetchwork.printed_size(ad jsonb)
RETURNS bigint
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT 700 + coalesce(sum(
        octet_length(e.key) + 4
        + CASE jsonb_typeof(e.value)
            WHEN 'string' THEN octet_length(e.value::text)
            WHEN 'number' THEN greatest(octet_length(e.value::text), 24)
            WHEN 'boolean' THEN 5
            WHEN 'null' THEN 9
            ELSE octet_length(e.value::text) * 2
        END
    ), 0)
    FROM jsonb_each(printed_size.ad) AS e
    WHERE NOT EXISTS (SELECT FROM fetchwork.attribute AS a WHERE a.key = lower(e.key) AND a.rule = 'kept');
END;
