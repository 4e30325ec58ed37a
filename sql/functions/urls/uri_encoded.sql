-- A text in AWS' encoding for signatures and URLs: every byte but A-Z a-z 0-9 - . _ ~ as %XX, and "/" too
-- unless slashes is true.
CREATE OR REPLACE FUNCTION fetchwork.uri_encoded(value text, slashes boolean DEFAULT false)
RETURNS text
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(
            string_agg(
                CASE
                    WHEN c.c ~ '^[A-Za-z0-9._~-]$' OR (c.c = '/' AND uri_encoded.slashes)
                        THEN c.c
                    ELSE regexp_replace(upper(encode(convert_to(c.c, 'UTF8'), 'hex')), '(..)', '%\1', 'g')
                END,
                '' ORDER BY c.n
            ),
            ''
        )
    FROM regexp_split_to_table(uri_encoded.value, '') WITH ORDINALITY AS c (c, n);
END;
