-- Whether jobs differ in nothing that has to be looked at one by one: each one's own part is empty, or plain,
-- as are_plain_parts() has it. What is plain needs no check but that of its size. "room": the bytes that such
-- a part may have. Parts are looked at as they come, some kilobytes at a time: the first that is not plain
-- ends it, and what all of them print is never in memory at once.
CREATE OR REPLACE FUNCTION fetchwork.are_like(procs jsonb [], room bigint)
RETURNS boolean
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own text;
    lines text := '';
BEGIN
    -- a loop over NULL is an error
    FOREACH own IN ARRAY coalesce(procs, '{}') LOOP
        CONTINUE WHEN own = '{}';
        IF own IS NULL OR octet_length(own) > room THEN
            RETURN false;
        END IF;
        lines := lines || own || E'\n';
        IF octet_length(lines) > 8000 THEN
            IF NOT fetchwork.are_plain_parts(lines) THEN
                RETURN false;
            END IF;
            lines := '';
        END IF;
    END LOOP;
    RETURN lines = '' OR fetchwork.are_plain_parts(lines);
END
$$;
