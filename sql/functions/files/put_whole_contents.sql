-- Stores the contents that are not there yet, of at most one chunk each, in one call. The server hashes them.
-- Repeating a call is harmless.
-- Errors: FWDEN (another's Owner, a limit), FWINV (larger than a chunk, more than 1000).
CREATE OR REPLACE FUNCTION fetchwork.put_whole_contents(owner text, datas bytea [])
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM fetchwork.require_owner(put_whole_contents.owner, 'keep or read files');
    PERFORM fetchwork.add_whole_contents(put_whole_contents.owner, NULL, datas);
END
$$;
