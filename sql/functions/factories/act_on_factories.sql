-- Does for late clusters what people ask of them: 'hold' pauses them, 'release' lets them go on, and with
-- 'remove' they make no more jobs. The caller has locked the factories (selected_factories), does the same to
-- their jobs, and calls materialize afterwards.
CREATE OR REPLACE FUNCTION fetchwork.act_on_factories(action text, factories integer [], reason text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE fetchwork.factory AS f
    SET paused = CASE
            WHEN act_on_factories.action = 'remove' THEN 3
            WHEN act_on_factories.action = 'hold' THEN 1
            WHEN f.next_proc = f.jobs THEN 2
            ELSE 0
        END,
        reason = CASE WHEN act_on_factories.action <> 'release' THEN act_on_factories.reason END
    WHERE f.cluster_id = ANY (act_on_factories.factories)
        AND f.paused <> 3
        AND (act_on_factories.action <> 'release' OR f.paused IN (-1, 1));
END
$$;
