-- Stores contents that are not there yet, of at most one chunk each, in one call: of a live run, by its
-- token, or of an Owner. Hashes each content once, so a call costs time in proportion to its bytes. Repeating
-- a call is harmless. False if the run is over.
-- Errors: FWTOK (another run's token), FWDEN (another's Owner, a limit of check_file_room), FWINV (more than
-- 1000, because each is searched for among the lacking ones; larger than a chunk).
-- Locks: of a run only rows that nothing but its own agent locks.
CREATE OR REPLACE FUNCTION fetchwork.put_whole_contents(
    owner text,
    datas bytea [],
    run_id bigint DEFAULT NULL,
    token uuid DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    of_owner text := fetchwork.content_owner(
        put_whole_contents.owner, put_whole_contents.run_id, put_whole_contents.token
    );
    given bytea;
    n integer := 0;
    hashes bytea[] := '{}';
    sizes bigint[] := '{}';
    lacking integer[];
    bytes bigint;
    added bigint;
BEGIN
    IF of_owner IS NULL THEN
        RETURN false;
    END IF;
    IF cardinality(datas) > 1000 THEN
        RAISE EXCEPTION '% contents in one call; allowed: 1000', cardinality(datas) USING ERRCODE = 'FWINV';
    END IF;
    FOREACH given IN ARRAY datas LOOP
        hashes := hashes || sha256(given);
        sizes := sizes || octet_length(given)::bigint;
    END LOOP;
    SELECT array_agg(g.n), sum(g.size)
    INTO lacking, bytes
    FROM (
        SELECT DISTINCT ON (a.hash) a.n, a.hash, a.size
        FROM unnest(hashes, sizes) WITH ORDINALITY AS a (hash, size, n)
        ORDER BY a.hash, a.n
    ) AS g
    WHERE NOT EXISTS (
            SELECT FROM fetchwork.content AS c
            WHERE put_whole_contents.run_id IS NULL
                AND c.owner = of_owner
                AND c.run_id IS NULL
                AND c.sha256 = g.hash
                AND c.size = g.size
                AND c.complete
        )
        AND NOT EXISTS (
            SELECT FROM fetchwork.content AS c
            WHERE c.run_id = put_whole_contents.run_id
                AND c.sha256 = g.hash
                AND c.size = g.size
                AND c.complete
        );
    IF lacking IS NULL THEN
        RETURN true;
    END IF;
    IF (SELECT max(s.size) FROM unnest(sizes) AS s (size)) > fetchwork.chunk_bytes() THEN
        RAISE EXCEPTION 'a content has more than % bytes; allowed: larger ones in chunks',
            fetchwork.chunk_bytes() USING ERRCODE = 'FWINV';
    END IF;
    PERFORM fetchwork.check_file_room(of_owner, 0, bytes);
    bytes := 0;
    FOREACH given IN ARRAY datas LOOP
        n := n + 1;
        CONTINUE WHEN n <> ALL (lacking);
        INSERT INTO fetchwork.content AS c (owner, sha256, size, run_id, complete)
        VALUES (of_owner, hashes[n], sizes[n], put_whole_contents.run_id, true)
        ON CONFLICT DO NOTHING
        RETURNING c.content_id INTO added;
        CONTINUE WHEN NOT FOUND;
        bytes := bytes + sizes[n];
        IF sizes[n] > 0 THEN
            INSERT INTO fetchwork.content_chunk (content_id, n, data)
            VALUES (added, 0, given);
        END IF;
    END LOOP;
    IF bytes > 0 THEN
        INSERT INTO fetchwork.content_change (owner, bytes)
        VALUES (of_owner, bytes);
    END IF;
    RETURN true;
END
$$;
