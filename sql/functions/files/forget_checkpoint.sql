-- Acknowledges that a checkpoint of left_checkpoints was deleted. False if the checkpoint is unknown, belongs
-- to an Owner that the caller may not name, or is needed by a run. Locks: its row.
CREATE OR REPLACE FUNCTION fetchwork.forget_checkpoint(cluster integer, proc integer, base text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM fetchwork.stored_checkpoint AS s
    WHERE s.cluster_id = forget_checkpoint.cluster
        AND s.proc_id = forget_checkpoint.proc
        AND s.base = forget_checkpoint.base
        AND s.owner = ANY (fetchwork.own_owners(fetchwork.invoker()))
        AND NOT fetchwork.is_stored_for_use(s);
    RETURN FOUND;
END
$$;
