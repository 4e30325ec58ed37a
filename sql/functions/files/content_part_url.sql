-- A URL to PUT part n of a content that begin_content began in a bucket; put_content_chunk without data then
-- notes the part.
-- Errors: FWNOT (no such content of an Owner that the caller may name, or it is complete), FWINV (part_url).
CREATE OR REPLACE FUNCTION fetchwork.content_part_url(content_id bigint, n integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored fetchwork.content := fetchwork.own_content(content_part_url.content_id);
BEGIN
    -- jobs may have named it
    IF stored.complete THEN
        RAISE EXCEPTION 'content % is complete', content_part_url.content_id USING ERRCODE = 'FWNOT';
    END IF;
    RETURN fetchwork.part_url('PUT', stored, content_part_url.n);
END
$$;
