-- Notes a submission's key in its transaction, so that a caller who got no answer can ask again with the same
-- key: submitted_as returns the cluster, and a second submission with the key is refused, even a concurrent
-- one. A key belongs to its owner alone, and is kept for submission_days (maintain_tables).
-- Errors: FWDEN (an Owner that the caller may not name), FWINV (the key), FWCON (the key is used).
-- Locks: as note_key.
CREATE OR REPLACE FUNCTION fetchwork.note_submission(owner text, key text, cluster integer)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
BEGIN
    IF NOT fetchwork.is_admin(role) AND NOT note_submission.owner = ANY (fetchwork.own_owners(role)) THEN
        RAISE EXCEPTION 'role % may not submit as Owner %',
            quote_nullable(role), quote_nullable(note_submission.owner) USING ERRCODE = 'FWDEN';
    END IF;
    IF fetchwork.note_key(note_submission.owner, note_submission.key, note_submission.cluster)
        <> note_submission.cluster
    THEN
        RAISE EXCEPTION 'submission % has been made',
            quote_nullable(note_submission.key) USING ERRCODE = 'FWCON';
    END IF;
END
$$;
