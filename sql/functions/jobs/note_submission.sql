-- Notes a submission's key in its transaction, so that a caller who got no answer can ask again with the same
-- key: submitted_as returns the cluster, and a second submission with the key is refused, even a concurrent
-- one. A key belongs to its owner alone, and is kept for submission_days.
-- Errors: FWDEN (an Owner that the caller may not name), FWINV (the key), FWCON (the key is used).
-- Locks: the key, until commit; of two submissions with one key the second waits, and is refused.
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
    IF note_submission.key = '' OR octet_length(note_submission.key) > 250 THEN
        RAISE EXCEPTION 'the key of a submission is empty or too long; allowed: 1 to 250 bytes'
            USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.submission AS s (owner, key, cluster_id)
    VALUES (note_submission.owner, note_submission.key, note_submission.cluster)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'submission % has been made',
            quote_nullable(note_submission.key) USING ERRCODE = 'FWCON';
    END IF;
    -- the owner's own old keys, a few at a time
    DELETE FROM fetchwork.submission AS s
    WHERE (s.owner, s.key) IN (
        SELECT o.owner, o.key
        FROM fetchwork.submission AS o
        WHERE o.owner = note_submission.owner
            AND o.submitted_at < now() - fetchwork.setting_time('submission_days')
        ORDER BY o.submitted_at
        LIMIT 10
        FOR UPDATE SKIP LOCKED
    );
END
$$;
