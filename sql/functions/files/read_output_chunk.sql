-- A chunk of an output of an Owner that the caller may name, n counting from 0; NULL if it is not there, as
-- after its delivery. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.read_output_chunk(content_id bigint, n integer)
RETURNS bytea
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    RETURN (
        SELECT k.data
        FROM fetchwork.content_chunk AS k
        JOIN fetchwork.content AS c ON c.content_id = k.content_id
        WHERE k.content_id = read_output_chunk.content_id
            AND k.n = read_output_chunk.n
            AND c.run_id IS NOT NULL
            AND (fetchwork.is_admin(role) OR c.owner = ANY (fetchwork.own_owners(role)))
    );
END
$$;
