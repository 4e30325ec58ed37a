-- The contents, given by hash in hex and size, that are not stored for an owner yet: their positions in the
-- arrays, from 1. Raises FWDEN before a byte is sent if they could not be stored: the limits of one file, of
-- the files of a job (job_bytes, of the largest job), of the owner, of all.
-- No caller can find out whether another owner has a content.
CREATE OR REPLACE FUNCTION fetchwork.lacking_contents(
    owner text,
    sha256s text [],
    sizes bigint [],
    job_bytes bigint
)
RETURNS integer[]
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    max_job numeric := fetchwork.setting_value('max_job_file_bytes');
    lacking integer[];
    bytes numeric;
    largest bigint;
BEGIN
    PERFORM fetchwork.require_owner(lacking_contents.owner, 'keep or read files');
    IF job_bytes > max_job THEN
        RAISE EXCEPTION 'the input files of a job have % bytes; allowed: % (setting max_job_file_bytes)',
            job_bytes, max_job USING ERRCODE = 'FWDEN';
    END IF;
    SELECT array_agg(a.n), coalesce(sum(a.size), 0), max(a.size)
    INTO lacking, bytes, largest
    FROM unnest(sha256s, sizes) WITH ORDINALITY AS a (sha256, size, n)
    WHERE NOT EXISTS (
        SELECT FROM fetchwork.content AS c
        WHERE c.owner = lacking_contents.owner
            AND c.run_id IS NULL
            AND c.sha256 = fetchwork.checked_sha256(a.sha256)
            AND c.size = a.size
            AND c.complete
    );
    PERFORM fetchwork.check_file_room(lacking_contents.owner, largest, bytes);
    RETURN coalesce(lacking, '{}');
END
$$;
