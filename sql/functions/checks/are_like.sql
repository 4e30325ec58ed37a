-- Whether jobs need no check one by one: each job's own part is empty or plain (are_plain_parts), and a plain
-- part only has its size checked. room: the allowed bytes of such a part. Checks the parts a few kilobytes at
-- a time and stops at the first that is not plain, so that not all printed parts are in memory at once.
CREATE OR REPLACE FUNCTION fetchwork.are_like(procs jsonb [], room bigint)
RETURNS boolean
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
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
