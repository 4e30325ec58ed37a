-- Stores contents of at most one chunk each, in one call: those of them that are not there yet. Their hashes
-- are the server's own. Repeating it is harmless.
-- Errors: FWDEN (another's Owner, a limit), FWINV (one that is larger than a chunk).
CREATE OR REPLACE FUNCTION fetchwork.put_whole_contents(owner text, datas bytea [])
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    lacking bytea[];
    bytes bigint;
BEGIN
    PERFORM fetchwork.check_file_owner(put_whole_contents.owner);
    SELECT array_agg(a.data), sum(octet_length(a.data))
    INTO lacking, bytes
    FROM (SELECT DISTINCT d.data FROM unnest(datas) AS d (data)) AS a
    WHERE NOT EXISTS (
        SELECT FROM fetchwork.content AS c
        WHERE c.owner = put_whole_contents.owner
            AND c.run_id IS NULL
            AND c.sha256 = sha256(a.data)
            AND c.size = octet_length(a.data)
            AND c.complete
    );
    IF lacking IS NULL THEN
        RETURN;
    END IF;
    PERFORM fetchwork.check_file_room(put_whole_contents.owner, 0, bytes);
    PERFORM fetchwork.add_whole_contents(put_whole_contents.owner, NULL, lacking);
END
$$;
