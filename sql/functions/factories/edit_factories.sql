-- Changes late clusters, for edit(): limits are their JobMaterializeLimit and JobMaterializeMaxIdle, and
-- changes the attributes of the jobs that are not made yet. The caller has locked the factories
-- and calls materialize afterwards. Errors: FWINV (a limit that is no integer), and those of a submission.
CREATE OR REPLACE FUNCTION fetchwork.edit_factories(
    factories integer [], limits jsonb, changes jsonb, role name
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    wrong text;
BEGIN
    SELECT l.key
    INTO wrong
    FROM jsonb_each(limits) AS l
    WHERE l.value::text !~ '^(null|-?[0-9]{1,9})$'
    LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'attribute "%" is %; allowed: an integer',
            wrong, fetchwork.shown_value(limits -> wrong) USING ERRCODE = 'FWINV';
    END IF;
    IF limits <> '{}' AND factories = '{}' THEN
        RAISE EXCEPTION 'attribute "%" is one of late clusters; allowed: a whole cluster that was submitted '
            'with max_materialize or max_idle',
            (SELECT min(l.key) FROM jsonb_object_keys(limits) AS l (key)) USING ERRCODE = 'FWINV';
    END IF;
    UPDATE fetchwork.factory AS f
    SET max_materialize = CASE
            WHEN NOT limits ? 'jobmaterializelimit' THEN f.max_materialize
            WHEN (limits ->> 'jobmaterializelimit')::integer >= 0
                THEN (limits ->> 'jobmaterializelimit')::integer
        END,
        max_idle = CASE
            WHEN NOT limits ? 'jobmaterializemaxidle' THEN f.max_idle
            WHEN (limits ->> 'jobmaterializemaxidle')::integer >= 0
                THEN (limits ->> 'jobmaterializemaxidle')::integer
        END,
        edits = f.edits || changes
    WHERE f.cluster_id = ANY (factories);
    -- the next job stands for all
    PERFORM fetchwork.checked_job(
        jsonb_strip_nulls(c.ad || (fetchwork.factory_parts(f, 1))[1]), edit_factories.role
    )
    FROM fetchwork.factory AS f
    JOIN fetchwork.cluster AS c ON c.cluster_id = f.cluster_id
    WHERE f.cluster_id = ANY (factories) AND f.next_proc < f.jobs AND changes <> '{}';
END
$$;
