-- Checkpoints of Owners that the caller may name that lie at their checkpoint_destination, and that no run
-- needs any more: a later one has taken their place, or the job has left the queue. At most most_rows, those
-- that were stored first, but for so many. Not of all owners for an administrator: only its owner is to
-- delete one. With access_point those of its jobs that are of_owner.
-- Locks nothing.
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
