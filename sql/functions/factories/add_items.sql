-- Appends items to a factory: each is {"FetchWorkItem": [TEXT, ...]}, a text for each variable. Called in the
-- transaction that submits the cluster. Errors: FWINV.
CREATE OR REPLACE FUNCTION fetchwork.add_items(cluster integer, rows jsonb [])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    maker fetchwork.factory;
    -- a value of 500 items is read for a few of them
    chunk integer := 500;
    longest bigint;
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
