-- A URL to GET part n of an output in a bucket, of an Owner that the caller may name; NULL as from
-- read_output_chunk, which serves outputs in the database. Locks nothing. Errors: FWINV (part_url).
CREATE OR REPLACE FUNCTION fetchwork.left_part_url(content_id bigint, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    RETURN (
        SELECT fetchwork.part_url('GET', c, left_part_url.n)
        FROM fetchwork.content AS c
        WHERE c.content_id = left_part_url.content_id
            AND c.run_id IS NOT NULL
            AND (fetchwork.is_admin(role) OR c.owner = ANY (fetchwork.own_owners(role)))
    );
END
$$;
