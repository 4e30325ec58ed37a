-- The id of an owner's batch of that name, which is made if it is new. ON CONFLICT: another transaction may
-- make it at the same time; then its row is used. Locks: KEY SHARE on the batch.
CREATE OR REPLACE FUNCTION fetchwork.ensure_batch(owner text, name text)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    batch integer;
BEGIN
    LOOP
        SELECT b.batch_id
        INTO batch
        FROM fetchwork.batch AS b
        WHERE b.owner = ensure_batch.owner AND b.name = ensure_batch.name
        -- so that it is not forgotten (functions/maintenance/forget.sql)
        FOR KEY SHARE;
        EXIT WHEN FOUND;
        INSERT INTO fetchwork.batch (owner, name)
        VALUES (ensure_batch.owner, ensure_batch.name)
        ON CONFLICT ON CONSTRAINT batch_owner_name_key DO NOTHING
        RETURNING batch_id INTO batch;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN batch;
END
$$;
