-- Adds contents that are not there yet, whole: of an owner, or with run_id of this run of his. FWINV if one
-- is larger than a chunk.
CREATE OR REPLACE FUNCTION fetchwork.add_whole_contents(owner text, run_id bigint, datas bytea [])
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM unnest(datas) AS d (data)
        WHERE octet_length(d.data) > fetchwork.chunk_bytes()
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'a content has more than %s bytes; allowed: larger ones in chunks', fetchwork.chunk_bytes()
            );
    END IF;
    WITH added AS (
        INSERT INTO fetchwork.content AS c (owner, sha256, size, run_id, complete)
        SELECT add_whole_contents.owner, sha256(d.data), octet_length(d.data), add_whole_contents.run_id, true
        FROM unnest(datas) AS d (data)
        ON CONFLICT DO NOTHING
        RETURNING c.content_id, c.sha256, c.size
    ),
    filled AS (
        INSERT INTO fetchwork.content_chunk (content_id, n, data)
        SELECT a.content_id, 0, d.data
        FROM added AS a
        JOIN unnest(datas) AS d (data) ON sha256(d.data) = a.sha256
        WHERE a.size > 0
    )
    INSERT INTO fetchwork.content_change (owner, bytes)
    SELECT add_whole_contents.owner, sum(a.size)
    FROM added AS a
    HAVING count(*) > 0;
END
$$;
