-- Would one more run of this autocluster break a concurrency limit, its queue's or its submitter's maximum? Counted from the live runs.
-- Locks: a transaction's advisory lock for each thing counted, in one order, so that two claims at the last place can't both get it.
-- ConcurrencyLimits is HTCondor's "name:amount,name"; a name that no limit is set for is unlimited.
CREATE OR REPLACE FUNCTION fetchwork.limit_allows(autocluster integer)
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted record;
    its fetchwork.autocluster;
    queue_maximum integer;
    submitter_maximum integer;
BEGIN
    SELECT a.* INTO its FROM fetchwork.autocluster AS a WHERE a.autocluster_id = autocluster;
    FOR wanted IN
        SELECT l.name, l.maximum, coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1) AS amount
        FROM regexp_split_to_table(its.concurrency_limits, '[\s,]+') AS part (text)
        JOIN fetchwork.concurrency_limit AS l ON l.name = split_part(part.text, ':', 1)
        ORDER BY l.name
    LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('fetchwork limit ' || wanted.name, 0));
        IF wanted.amount + (
            SELECT coalesce(sum(coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1)), 0)
            FROM fetchwork.run AS r
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id AND a.concurrency_limits IS NOT NULL
            CROSS JOIN LATERAL regexp_split_to_table(a.concurrency_limits, '[\s,]+') AS part (text)
            WHERE split_part(part.text, ':', 1) = wanted.name
        ) > wanted.maximum THEN
            RETURN false;
        END IF;
    END LOOP;

    SELECT q.max_running INTO queue_maximum FROM fetchwork.queue AS q WHERE q.name = its.queue;
    IF queue_maximum IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('fetchwork queue ' || its.queue, 0));
        IF (SELECT count(*) FROM fetchwork.run AS r JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id WHERE a.queue = its.queue) >= queue_maximum THEN
            RETURN false;
        END IF;
    END IF;

    SELECT s.max_running INTO submitter_maximum FROM fetchwork.submitter AS s WHERE s.name = its.submitter;
    IF submitter_maximum IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('fetchwork submitter ' || its.submitter, 0));
        IF (SELECT count(*) FROM fetchwork.run AS r JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id WHERE a.submitter = its.submitter) >= submitter_maximum THEN
            RETURN false;
        END IF;
    END IF;
    RETURN true;
END
$$;
