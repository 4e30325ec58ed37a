-- Whether jobs differ in nothing that has to be looked at one by one: each one's own part is empty, or sets
-- only arguments, environment and standard files, to plain text. What is plain needs no check but that of its
-- size: letters that JSON writes as they are, no expression, and no value of the slot ($$(...), whose
-- length nobody knows yet). "room": the bytes that such a part may have.
CREATE OR REPLACE FUNCTION fetchwork.are_like(procs jsonb [], room bigint)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT NOT EXISTS (
        SELECT FROM unnest(procs) AS p (ad)
        CROSS JOIN LATERAL (SELECT p.ad::text AS text OFFSET 0) AS own
        WHERE p.ad IS NULL
            OR own.text <> '{}'
            AND NOT (
                octet_length(own.text) <= room
                AND own.text ~ (
                    '^{("(Args|Arguments|Env|Environment|In|Out|Err)": '
                    '"([^"\\[:cntrl:]]|\\["\\])*"(, )?){1,7}}$'
                )
                AND strpos(own.text, '"/Expr(') = 0
                AND strpos(own.text, '$$(') = 0
            )
    );
END;
