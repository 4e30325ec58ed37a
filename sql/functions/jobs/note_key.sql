-- Notes the key of a submission that is being made as this cluster, and returns the cluster of the key: this
-- one, or that of another submission, which has noted the key meanwhile. For note_submission and
-- submit_cluster, which have checked that the caller may name the owner.
-- Locks: the key, until commit; of two submissions with one key the second waits for the end of the first.
CREATE OR REPLACE FUNCTION fetchwork.note_key(owner text, key text, cluster integer)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    known integer;
BEGIN
    IF note_key.key = '' OR octet_length(note_key.key) > 250 THEN
        RAISE EXCEPTION 'the key of a submission is empty or too long; allowed: 1 to 250 bytes'
            USING ERRCODE = 'FWINV';
    END IF;
    LOOP
        INSERT INTO fetchwork.submission AS s (owner, key, cluster_id)
        VALUES (note_key.owner, note_key.key, note_key.cluster)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN note_key.cluster;
        END IF;
        SELECT s.cluster_id
        INTO known
        FROM fetchwork.submission AS s
        WHERE s.owner = note_key.owner AND s.key = note_key.key;
        IF FOUND THEN
            RETURN known;
        END IF;
        -- it was so old that it has just been deleted
    END LOOP;
END
$$;
