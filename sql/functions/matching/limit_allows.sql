-- Whether one more run of this autocluster may be claimed, by the concurrency limits and the maxima of its
-- queue and its submitter. Counts the live runs. ConcurrencyLimits is HTCondor's "name:amount,name"; a name
-- without a limit is unlimited. Jobs of the scheduler universe take no slot and are not counted: a DAG must
-- not block its nodes. The caller holds the lock of lock_limits, so that two claims can't both get the last
-- unit.
-- Does not turn sequential scans off, as claim does: here, where all live runs are counted, they are right,
-- and the penalty would call in the JIT compiler.
CREATE OR REPLACE FUNCTION fetchwork.limit_allows(autocluster integer)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = on
SET jit = off
AS $$
DECLARE
    wanted record;
    wanted_autocluster fetchwork.autocluster;
    queue_maximum integer;
    submitter_maximum integer;
BEGIN
    SELECT a.*
    INTO wanted_autocluster
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = autocluster;
    FOR wanted IN
        SELECT
            l.name, l.maximum,
            coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1) AS amount
        FROM regexp_split_to_table(wanted_autocluster.concurrency_limits, '[\s,]+') AS part (text)
        JOIN fetchwork.concurrency_limit AS l ON l.name = split_part(part.text, ':', 1)
    LOOP
        IF wanted.amount + (
            SELECT coalesce(sum(coalesce(nullif(split_part(part.text, ':', 2), '')::double precision, 1)), 0)
            FROM fetchwork.run AS r
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
                AND a.concurrency_limits IS NOT NULL
            CROSS JOIN LATERAL regexp_split_to_table(a.concurrency_limits, '[\s,]+') AS part (text)
            WHERE split_part(part.text, ':', 1) = wanted.name
        ) > wanted.maximum THEN
            RETURN false;
        END IF;
    END LOOP;

    SELECT q.max_running
    INTO queue_maximum
    FROM fetchwork.queue AS q
    WHERE q.name = wanted_autocluster.queue;
    IF queue_maximum IS NOT NULL
        AND (
            SELECT count(*)
            FROM fetchwork.run AS r
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
            WHERE a.queue = wanted_autocluster.queue AND a.access_point IS NULL
        ) >= queue_maximum
    THEN
        RETURN false;
    END IF;

    SELECT s.max_running
    INTO submitter_maximum
    FROM fetchwork.submitter AS s
    WHERE s.name = wanted_autocluster.submitter;
    RETURN submitter_maximum IS NULL
        OR (
            SELECT count(*)
            FROM fetchwork.run AS r
            JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
            WHERE a.submitter = wanted_autocluster.submitter AND a.access_point IS NULL
        ) < submitter_maximum;
END
$$;
