-- The autocluster of a checked, whole job ad; made if there is none yet.
--
-- Its ad is what matching looks at (functions/matching/matched_names.sql).
--
-- Two transactions that find none at the same time make one each; all later ones take the older. To make the second wait would let a submission
-- of a million jobs delay all others with equal jobs, and two submissions with several autoclusters each wait for the other.
--
-- Locks: none, but that a new submitter's row waits for a twin that another transaction is inserting.
CREATE OR REPLACE FUNCTION fetchwork.ensure_autocluster(whole jsonb)
RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names text[] := fetchwork.matched_names(whole);
    matched jsonb;
    found integer;
    its_signature uuid;
    its_queue text := coalesce(whole ->> 'FetchWorkQueue', 'default');
    its_submitter text := coalesce(nullif(whole ->> 'AccountingGroup', ''), whole ->> 'Owner');
BEGIN
    SELECT jsonb_object_agg(e.key, e.value)
    INTO matched
    FROM jsonb_each(whole) AS e
    WHERE lower(e.key) = ANY (names);

    its_signature := md5(its_queue || E'\n' || its_submitter || E'\n' || matched::text)::uuid;
    SELECT a.autocluster_id INTO found FROM fetchwork.autocluster AS a WHERE a.signature = its_signature ORDER BY a.autocluster_id LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;

    INSERT INTO fetchwork.submitter (name) VALUES (its_submitter) ON CONFLICT DO NOTHING;
    INSERT INTO fetchwork.autocluster (
        signature, queue, owner, submitter, request_cpus, request_memory_mib, request_disk_kib, request_gpus, concurrency_limits, ad
    )
    VALUES (
        its_signature, its_queue, whole ->> 'Owner', its_submitter,
        fetchwork.literal_number(whole, 'RequestCpus'), fetchwork.literal_number(whole, 'RequestMemory'),
        fetchwork.literal_number(whole, 'RequestDisk'), fetchwork.literal_number(whole, 'RequestGPUs'),
        nullif(lower(whole ->> 'ConcurrencyLimits'), ''),
        matched
    )
    RETURNING autocluster_id INTO found;
    RETURN found;
END
$$;
