-- The own parts of the ads of the next jobs of a factory, so many of them.
CREATE OR REPLACE FUNCTION fetchwork.factory_parts(maker fetchwork.factory, number integer)
RETURNS jsonb []
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    began_at integer := maker.next_proc / maker.step;
    parts jsonb[];
BEGIN
    IF maker.template IS NULL THEN
        RETURN array_fill(maker.edits, ARRAY[number]);
    ELSIF maker.variables = 0 THEN
        parts := ARRAY(
            SELECT format(maker.template, p.n, p.n % maker.step, p.n / maker.step)::jsonb
            FROM generate_series(maker.next_proc, maker.next_proc + number - 1) AS p (n)
        );
    ELSE
        parts := ARRAY(
            WITH item AS MATERIALIZED (
                SELECT
                    (c.first_row + e.nth - 1)::integer AS n,
                    ARRAY(
                        SELECT a.argument
                        FROM jsonb_array_elements_text(e.item) AS a (argument)
                    ) AS arguments
                FROM fetchwork.factory_item AS c
                CROSS JOIN LATERAL jsonb_array_elements(c.items) WITH ORDINALITY AS e (item, nth)
                -- a chunk has 500 items at most
                WHERE c.cluster_id = maker.cluster_id
                    AND c.first_row > began_at - 500
                    AND c.first_row <= (maker.next_proc + number - 1) / maker.step
            )
            SELECT
                format(
                    maker.template,
                    VARIADIC ARRAY[p.n::text, (p.n % maker.step)::text, i.n::text] || i.arguments
                )::jsonb
            FROM generate_series(maker.next_proc, maker.next_proc + number - 1) AS p (n)
            JOIN item AS i ON i.n = p.n / maker.step
            ORDER BY p.n
        );
    END IF;
    IF maker.edits = '{}' THEN
        RETURN parts;
    END IF;
    -- an edit may spell an attribute in another way
    RETURN ARRAY(
        SELECT maker.edits || coalesce(
            (
                SELECT jsonb_object_agg(e.key, e.value)
                FROM jsonb_each(p.ad) AS e
                WHERE lower(e.key) NOT IN (SELECT lower(k.key) FROM jsonb_object_keys(maker.edits) AS k (key))
            ),
            '{}'
        )
        FROM unnest(parts) WITH ORDINALITY AS p (ad, n)
        ORDER BY p.n
    );
END
$$;
