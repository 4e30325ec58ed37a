-- Raises FWDEN if a file, its owner's files or all files would exceed their limit. Reads two sums and locks
-- nothing: uncommitted bytes of other transactions are not counted, so several calls at the same moment may
-- pass a limit, each by the bytes that it adds.
CREATE OR REPLACE FUNCTION fetchwork.check_file_room(owner text, largest bigint, bytes numeric)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    max_file numeric := fetchwork.setting_value('max_file_bytes');
    max_owner numeric := fetchwork.setting_value('max_owner_file_bytes');
    max_all numeric := fetchwork.setting_value('max_all_file_bytes');
    own numeric;
    everybody numeric;
BEGIN
    IF largest > max_file THEN
        RAISE EXCEPTION 'a file has % bytes; allowed: % (setting max_file_bytes)',
            largest, max_file USING ERRCODE = 'FWDEN';
    END IF;
    IF bytes = 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(sum(t.bytes) FILTER (WHERE t.owner = check_file_room.owner), 0), coalesce(sum(t.bytes), 0)
    INTO own, everybody
    FROM (
        SELECT k.owner, k.bytes
        FROM fetchwork.content_tally AS k
        UNION ALL
        SELECT c.owner, c.bytes
        FROM fetchwork.content_change AS c
    ) AS t;
    IF own + check_file_room.bytes > max_owner THEN
        RAISE EXCEPTION 'the files of Owner % would have % bytes; allowed: % (setting max_owner_file_bytes)',
            quote_nullable(check_file_room.owner), own + check_file_room.bytes, max_owner
            USING ERRCODE = 'FWDEN';
    END IF;
    IF everybody + check_file_room.bytes > max_all THEN
        RAISE EXCEPTION 'there is no room for % bytes of files; allowed: % for all jobs (setting '
            'max_all_file_bytes)',
            check_file_room.bytes, max_all USING ERRCODE = 'FWDEN';
    END IF;
END
$$;
