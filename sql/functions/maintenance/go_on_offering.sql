-- resume_offers without its check of rights, for reap as well.
CREATE OR REPLACE FUNCTION fetchwork.go_on_offering(if_settled boolean)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE fetchwork.heartbeat AS b
    SET offers_wait = false
    WHERE b.offers_wait
        AND (
            NOT if_settled
            OR (
                coalesce(b.offers_from < clock_timestamp(), true)
                AND NOT EXISTS (SELECT FROM fetchwork.unsettled)
            )
        );
    IF FOUND THEN
        PERFORM fetchwork.notify_agents();
    END IF;
    RETURN FOUND;
END
$$;
