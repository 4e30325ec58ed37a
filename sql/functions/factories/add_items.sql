-- Appends items to a factory: each is {"FetchWorkItem": [TEXT, ...]}, a text for each variable. Called in the
-- transaction that submits the cluster. Errors: FWINV; FWDEN if the items of the owner's late clusters may
-- take more bytes than its jobs in the queue may have (max_jobs_per_owner times max_job_bytes). They count as
-- if each were as long as the longest of its cluster. Locks nothing, as check_owner: submissions at the same
-- moment may pass that bound, each by its own items.
CREATE OR REPLACE FUNCTION fetchwork.add_items(cluster integer, rows jsonb [])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    maker fetchwork.factory;
    -- a value of 500 items is read for a few of them
    chunk integer := 500;
    longest bigint;
    bytes numeric;
    allowed numeric := fetchwork.setting_value('max_jobs_per_owner')
        * fetchwork.setting_value('max_job_bytes');
BEGIN
    SELECT f.*
    INTO maker
    FROM fetchwork.factory AS f
    WHERE f.cluster_id = cluster;
    IF maker.variables = 0 THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(add_items.rows) AS r (item)
        WHERE jsonb_typeof(r.item -> 'FetchWorkItem') IS DISTINCT FROM 'array'
            OR jsonb_array_length(r.item -> 'FetchWorkItem') <> maker.variables
            OR jsonb_path_exists(r.item, '$.FetchWorkItem[*] ? (@.type() != "string")')
    ) THEN
        RAISE EXCEPTION 'an item of cluster % is wrong; allowed: {"FetchWorkItem": [TEXT, ...]}, with % '
            'texts',
            cluster, maker.variables USING ERRCODE = 'FWINV';
    END IF;
    SELECT max(octet_length(r.item::text))
    INTO longest
    FROM unnest(add_items.rows) AS r (item);
    maker.part_bytes := greatest(
        maker.part_bytes,
        octet_length(maker.template)
        + (length(maker.template) - length(replace(maker.template, '$s', ' '))) * (longest + 20)
    );
    IF maker.part_bytes > fetchwork.setting_value('max_job_bytes') THEN
        RAISE EXCEPTION 'jobs of cluster % may have % bytes of their own; allowed: % (setting max_job_bytes)',
            cluster, maker.part_bytes, fetchwork.setting_value('max_job_bytes') USING ERRCODE = 'FWINV';
    END IF;
    bytes := (maker.rows + cardinality(add_items.rows))::numeric * maker.part_bytes + (
        SELECT coalesce(sum(f.rows::numeric * f.part_bytes), 0)
        FROM fetchwork.factory AS f
        WHERE f.owner = maker.owner AND f.cluster_id <> cluster
    );
    IF bytes > allowed THEN
        RAISE EXCEPTION 'the items of late clusters of Owner % may take % bytes; allowed: % (settings '
            'max_jobs_per_owner and max_job_bytes, multiplied)',
            quote_nullable(maker.owner), bytes, allowed USING ERRCODE = 'FWDEN';
    END IF;
    INSERT INTO fetchwork.factory_item (cluster_id, first_row, items)
    SELECT cluster, maker.rows + chunk * c.n, jsonb_agg(c.arguments ORDER BY c.nth)
    FROM (
        SELECT r.nth, (r.nth - 1) / chunk AS n, (
            SELECT jsonb_agg(a.argument ORDER BY v.nth, a.nth)
            FROM jsonb_array_elements_text(r.item -> 'FetchWorkItem') WITH ORDINALITY AS v (value, nth)
            CROSS JOIN LATERAL (
                VALUES
                    -- without the quotes around it
                    (1, substr(to_json(v.value)::text, 2, length(to_json(v.value)::text) - 2)),
                    (2, fetchwork.item_value(v.value))
            ) AS a (nth, argument)
        ) AS arguments
        FROM unnest(add_items.rows) WITH ORDINALITY AS r (item, nth)
    ) AS c
    GROUP BY c.n;
    UPDATE fetchwork.factory AS f
    SET rows = f.rows + cardinality(add_items.rows), part_bytes = maker.part_bytes
    WHERE f.cluster_id = cluster;
END
$$;
