-- Regular maintenance of the queue: agents call it every second or two, a pool without agents by a timer. Returns what was done.
CREATE OR REPLACE FUNCTION fetchwork.maintain_queue(OUT reaped integer, OUT woken integer, OUT folded integer)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    reaped := fetchwork.reap();
    woken := fetchwork.wake();
    folded := fetchwork.fold();
END
$$;
