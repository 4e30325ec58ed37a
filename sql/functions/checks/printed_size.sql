-- An upper bound, in bytes, of the ad that FETCH_WORK prints for a job: fetchwork's additions (ids, token,
-- the account three times, lease: under 700 bytes) and each attribute that is not kept back. An agent that
-- reads less than it prints holds the job.
-- A string is at most its JSON form; if it is printed as eval("...") (line breaks, control characters), it is
-- 12 bytes and a byte for each quote longer, and DEL and the line ends of Unicode are printed as octal.
-- HTCondor's printer puts blanks around the operators of an expression and may write a character outside
-- ASCII as octal, 4 bytes for one; a nested value gains blanks, too.
CREATE OR REPLACE FUNCTION fetchwork.printed_size(ad jsonb)
RETURNS bigint
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT 700 + coalesce(sum(
        octet_length(e.key) + 4
        + CASE jsonb_typeof(e.value)
            WHEN 'string' THEN CASE
                WHEN j.text LIKE '"/Expr(%)/"' THEN 16 + 2 * j.bytes + 6 * (j.bytes - j.characters)
                ELSE 16 + j.bytes + (j.characters - length(replace(j.text, '"', '')))
                    + 9 * (j.characters - length(translate(j.text, U&'\007F\0085\2028\2029', '')))
                END
            WHEN 'number' THEN greatest(j.bytes, 24)
            WHEN 'boolean' THEN 5
            WHEN 'null' THEN 9
            ELSE 16 + 2 * j.bytes + 6 * (j.bytes - j.characters)
        END
    ), 0)
    FROM jsonb_each(printed_size.ad) AS e
    CROSS JOIN LATERAL (
        SELECT
            e.value::text AS text, octet_length(e.value::text) AS bytes,
            char_length(e.value::text) AS characters
    ) AS j
    WHERE NOT EXISTS (SELECT FROM fetchwork.attribute AS a WHERE a.key = lower(e.key) AND a.rule = 'kept');
END;
