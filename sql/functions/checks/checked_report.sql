-- A report of a starter hook in the form to store: an object, without secrets. Errors: FWINV (not an object).
CREATE OR REPLACE FUNCTION fetchwork.checked_report(report jsonb)
RETURNS jsonb
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
    IF report IS NULL OR jsonb_typeof(report) <> 'object' THEN
        RAISE EXCEPTION 'a report is %; allowed: a JSON object',
            coalesce(left(report::text, 60), 'missing') USING ERRCODE = 'FWINV';
    END IF;
    RETURN (
        SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}')
        FROM jsonb_each(report) AS e
        WHERE lower(e.key) NOT IN ('fetchworktoken', 'claimid', 'capability')
    );
END
$$;
