-- Checkpoints at a checkpoint_destination that no run needs any more, because a later one has replaced them
-- or the job has left the queue: of the Owners that the caller may name. The oldest most_rows, after skipping
-- but_for. An administrator does not see those of all owners: only the owner may delete a checkpoint. With
-- access_point, only those of of_owner's jobs there. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.left_checkpoints(
    most_rows integer DEFAULT 1000,
    but_for integer DEFAULT 0,
    access_point text DEFAULT NULL,
    of_owner text DEFAULT NULL
)
RETURNS TABLE (cluster_id integer, proc_id integer, base text, owner text, names text [])
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own text[] := fetchwork.own_owners(fetchwork.invoker());
BEGIN
    RETURN QUERY
    SELECT s.cluster_id, s.proc_id, s.base, s.owner, s.names
    FROM fetchwork.stored_checkpoint AS s
    WHERE s.owner = ANY (own)
        AND (
            left_checkpoints.access_point IS NULL
            OR (s.access_point = left_checkpoints.access_point AND s.owner = of_owner)
        )
        AND NOT fetchwork.is_stored_for_use(s)
    ORDER BY s.stored_at, s.base
    OFFSET left_checkpoints.but_for
    LIMIT least(left_checkpoints.most_rows, 1000);
END
$$;
