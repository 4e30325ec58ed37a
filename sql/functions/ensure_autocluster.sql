-- The autocluster of a checked, whole job ad; made if it is the first of its kind.
--
-- Its ad is what matching looks at: Requirements, Rank, every Request*, limits, owner and group, what slots are known to look at
-- (significant_attribute), and every attribute whose name occurs in one of those expressions, and so on until nothing is added.
--
-- Locks: none in the common case; the first of a kind inserts and so waits for a twin that another transaction is inserting.
CREATE OR REPLACE FUNCTION fetchwork.ensure_autocluster(whole jsonb)
RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names text[];
    more text[];
    matched jsonb;
    found integer;
    its_signature uuid;
    its_queue text := coalesce(whole ->> 'FetchWorkQueue', 'default');
    its_submitter text := coalesce(whole ->> 'AccountingGroup', whole ->> 'Owner');
BEGIN
    SELECT coalesce(array_agg(lower(e.key)), '{}')
    INTO names
    FROM jsonb_object_keys(whole) AS e (key)
    WHERE lower(e.key) IN ('requirements', 'rank', 'concurrencylimits', 'owner', 'accountinggroup', 'acctgroup', 'jobuniverse')
        OR lower(e.key) LIKE 'request%'
        OR lower(e.key) IN (SELECT s.key FROM fetchwork.significant_attribute AS s);
    LOOP
        SELECT array_agg(DISTINCT word.name)
        INTO more
        FROM jsonb_each(whole) AS e
        CROSS JOIN LATERAL unnest(fetchwork.expression_names(e.value)) AS word (name)
        WHERE lower(e.key) = ANY (names)
            AND word.name <> ALL (names)
            AND EXISTS (SELECT FROM jsonb_object_keys(whole) AS k (key) WHERE lower(k.key) = word.name);
        EXIT WHEN more IS NULL;
        names := names || more;
    END LOOP;

    SELECT jsonb_object_agg(e.key, e.value)
    INTO matched
    FROM jsonb_each(whole) AS e
    WHERE lower(e.key) = ANY (names);

    its_signature := md5(its_queue || E'\n' || its_submitter || E'\n' || matched::text)::uuid;
    SELECT a.autocluster_id INTO found FROM fetchwork.autocluster AS a WHERE a.signature = its_signature;
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
        CASE WHEN fetchwork.is_expression(whole -> 'ConcurrencyLimits') THEN NULL ELSE nullif(lower(whole ->> 'ConcurrencyLimits'), '') END,
        matched
    )
    ON CONFLICT (signature) DO NOTHING
    RETURNING autocluster_id INTO found;
    IF found IS NULL THEN
        SELECT a.autocluster_id INTO found FROM fetchwork.autocluster AS a WHERE a.signature = its_signature;
    END IF;
    RETURN found;
END
$$;
