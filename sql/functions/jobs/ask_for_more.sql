-- Makes a job that used too much request more when it runs again (retry_request_memory, retry_request_disk),
-- and moves it to the autocluster of the new requests. changes: attributes computed by the transforms in its
-- ad (matchmaker/retrying.py); an agent can write no other attribute with it. code, subcode: those with which
-- the job would have been held. For retry_with_more() and settle_exit(). The caller has locked the job.
-- Errors: FWINV (another attribute, not a number).
CREATE OR REPLACE FUNCTION fetchwork.ask_for_more(
    cluster integer,
    proc integer,
    changes jsonb,
    code integer,
    subcode integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    before fetchwork.job;
    whole jsonb;
    strange text;
BEGIN
    SELECT e.key
    INTO strange
    FROM jsonb_each(changes) AS e
    WHERE e.key NOT IN (
            'RequestMemory', 'RequestDisk', 'RetryRequestMemoryIndex', 'RetryRequestDiskIndex'
        )
        OR jsonb_typeof(e.value) <> 'number'
    LIMIT 1;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'the next request of a job has "%"; allowed: RequestMemory, RequestDisk, '
            'RetryRequestMemoryIndex, RetryRequestDiskIndex, numbers',
            left(strange, 80) USING ERRCODE = 'FWINV';
    END IF;
    PERFORM fetchwork.checked_ad(changes);
    SELECT j.*
    INTO before
    FROM fetchwork.job AS j
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    UPDATE fetchwork.job AS j
    SET ad = j.ad || changes,
        facts = j.facts || jsonb_build_object(
            'VacateReasonCode', ask_for_more.code, 'VacateReasonSubCode', ask_for_more.subcode
        )
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    SELECT jsonb_strip_nulls(c.ad || j.ad)
    INTO whole
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    UPDATE fetchwork.job AS j
    SET autocluster_id = fetchwork.ensure_autocluster(whole, j)
    WHERE j.cluster_id = cluster AND j.proc_id = proc;
    PERFORM fetchwork.move_jobs(
        ARRAY[cluster], ARRAY[proc], ARRAY[before.autocluster_id], ARRAY[before.batch_id],
        ARRAY[before.job_prio]
    );
END
$$;
