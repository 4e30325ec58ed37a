-- The autocluster of a checked, whole job ad, which is made if it is new. Its ad has the attributes
-- that matching reads (functions/matching/matched_names.sql). If these include one that the queue keeps of
-- the job (ProcId, NumJobStarts), it has the present value, or undefined: as in HTCondor, jobs that differ in
-- it are separate autoclusters. enqueue looks a job up again when it waits again.
-- Two transactions that find none at the same time make one each; all later ones take the older. If the
-- second waited, a submission of a million jobs would delay all others with equal jobs, and two submissions
-- with several autoclusters could deadlock.
-- Locks: KEY SHARE on the autocluster, so that it is not forgotten (functions/maintenance/forget.sql). A new
-- submitter gets its row later (functions/maintenance/fold.sql): a row made here would wait for another
-- transaction that makes the same.
CREATE OR REPLACE FUNCTION fetchwork.ensure_autocluster(whole jsonb, job fetchwork.job)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    names text[] := fetchwork.matched_names(whole);
    matched jsonb;
    kept text[];
    of_queue jsonb;
    autocluster integer;
    job_signature uuid;
    job_queue text := coalesce(whole ->> 'FetchWorkQueue', 'default');
    job_submitter text := coalesce(nullif(whole ->> 'AccountingGroup', ''), whole ->> 'Owner');
BEGIN
    SELECT jsonb_object_agg(e.key, e.value)
    INTO matched
    FROM jsonb_each(whole) AS e
    WHERE lower(e.key) = ANY (names);

    SELECT array_agg(t.name)
    INTO kept
    FROM fetchwork.attribute AS t
    WHERE t.key = ANY (names)
        AND (
            t.rule = 'ours'
            -- an attribute of every ad, unless this ad sets it; a Rank of 0 counts as no Rank
            OR (
                t.name <> 'Rank'
                AND fetchwork.default_attributes() ? t.name
                AND NOT EXISTS (
                    SELECT FROM jsonb_object_keys(matched) AS k (name)
                    WHERE lower(k.name) = t.key
                )
            )
        );
    IF kept IS NOT NULL THEN
        of_queue := fetchwork.queue_attributes(job);
        SELECT coalesce(matched, '{}') || coalesce(jsonb_object_agg(k.name, of_queue -> k.name), '{}')
        INTO matched
        FROM unnest(kept) AS k (name)
        WHERE k.name <> 'AutoClusterId';
    END IF;

    job_signature := md5(job_queue || E'\n' || job_submitter || E'\n' || matched::text)::uuid;
    SELECT a.autocluster_id
    INTO autocluster
    FROM fetchwork.autocluster AS a
    WHERE a.signature = job_signature
    ORDER BY a.autocluster_id
    LIMIT 1
    -- skips one that is being forgotten
    FOR KEY SHARE SKIP LOCKED;
    IF autocluster IS NOT NULL THEN
        RETURN autocluster;
    END IF;

    INSERT INTO fetchwork.autocluster (
        signature, queue, access_point, owner, submitter,
        request_cpus, request_memory_mib, request_disk_kib, request_gpus, concurrency_limits, ad
    )
    VALUES (
        job_signature, job_queue,
        CASE WHEN whole -> 'JobUniverse' = '7' THEN whole ->> 'FetchWorkAccessPoint' END,
        whole ->> 'Owner', job_submitter,
        fetchwork.literal_number(whole, 'RequestCpus'), fetchwork.literal_number(whole, 'RequestMemory'),
        fetchwork.literal_number(whole, 'RequestDisk'), fetchwork.literal_number(whole, 'RequestGPUs'),
        nullif(lower(whole ->> 'ConcurrencyLimits'), ''),
        matched
    )
    RETURNING autocluster_id INTO autocluster;
    IF 'AutoClusterId' = ANY (kept) THEN
        UPDATE fetchwork.autocluster AS a
        SET ad = a.ad || jsonb_build_object('AutoClusterId', autocluster)
        WHERE a.autocluster_id = autocluster;
    END IF;
    RETURN autocluster;
END
$$;
