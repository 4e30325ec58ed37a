-- Ends demand without waiting jobs. A transaction that takes jobs out of the queue ends their demand itself;
-- this finds the rows that two such transactions at the same time left to each other. One call at a time, at
-- most every five seconds; returns how many rows were deleted. One search of the index of "waiting" for each
-- row, because a join would read all waiting jobs.
CREATE OR REPLACE FUNCTION fetchwork.sweep_demand()
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    swept integer;
BEGIN
    IF NOT EXISTS (
        SELECT FROM fetchwork.leader_task AS t
        WHERE t.name = 'demand' AND t.taken_at < clock_timestamp() - interval '5 s'
    ) OR NOT fetchwork.take_turn('demand') THEN
        RETURN 0;
    END IF;
    UPDATE fetchwork.leader_task AS t
    SET taken_at = clock_timestamp()
    WHERE t.name = 'demand';
    SELECT count(fetchwork.end_demand(i.autocluster_id, i.job_prio))
    INTO swept
    FROM (
        SELECT d.autocluster_id, d.job_prio
        FROM fetchwork.demand AS d
        WHERE NOT EXISTS (
            SELECT FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = d.autocluster_id AND w.job_prio = d.job_prio
        )
        LIMIT 20000
    ) AS i;
    RETURN swept;
END
$$;
