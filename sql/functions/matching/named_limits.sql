-- The concurrency limits that a job names (HTCondor's "name:amount,name", in lower case), in its order, and
-- the amount that it takes of each: 1, if it names none. A job may name a limit twice.
CREATE OR REPLACE FUNCTION fetchwork.named_limits(concurrency_limits text)
RETURNS TABLE (name text, amount double precision)
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        split_part(part.text, ':', 1),
        coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1)
    FROM regexp_split_to_table(named_limits.concurrency_limits, '[\s,]+') AS part (text);
END;
