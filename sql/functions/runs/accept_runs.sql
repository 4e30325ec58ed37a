-- accept() for the runs that have not started and whose rows no other transaction holds. accepted_s: seconds
-- since REPLY_FETCH said accept. Returns their positions in the arrays.
-- Locks: the runs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.accept_runs(
    run_ids bigint [],
    tokens uuid [],
    accepted_s double precision []
)
RETURNS integer []
LANGUAGE plpgsql
AS $$
DECLARE
    accepted_now integer[];
BEGIN
    WITH offered AS (
        SELECT a.n, r.run_id, clock_timestamp() - make_interval(secs => greatest(a.accepted_s, 0)) AS at
        FROM unnest(run_ids, tokens, accepted_s) WITH ORDINALITY AS a (run_id, token, accepted_s, n)
        JOIN fetchwork.run AS r ON r.run_id = a.run_id
        WHERE fetchwork.proves(a.token, r.token, r.host_id) AND r.state = 'reserved'
        FOR UPDATE OF r SKIP LOCKED
    ),
    accepted AS (
        UPDATE fetchwork.run AS r
        SET state = 'accepted',
            accepted_at = coalesce(r.accepted_at, greatest(o.at, r.claimed_at)),
            contact_at = clock_timestamp()
        FROM offered AS o
        WHERE r.run_id = o.run_id
        RETURNING o.n
    )
    SELECT array_agg(a.n)
    INTO accepted_now
    FROM accepted AS a;
    RETURN coalesce(accepted_now, '{}');
END
$$;
