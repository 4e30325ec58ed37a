-- Makes one partition of a table partitioned by time, if it is not there. If the default partition already
-- has rows of that time, PostgreSQL refuses; the rows stay there, which only makes their drop slower.
CREATE OR REPLACE FUNCTION fetchwork.ensure_partition(
    parent text,
    from_at timestamptz,
    until_at timestamptz,
    suffix text
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF to_regclass(format('fetchwork.%I', parent || '_' || suffix)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format(
        'CREATE TABLE fetchwork.%I PARTITION OF fetchwork.%I FOR VALUES FROM (%L) TO (%L)',
        parent || '_' || suffix, parent, from_at, until_at
    );
EXCEPTION
    WHEN check_violation THEN NULL;
END
$$;
