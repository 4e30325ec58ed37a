-- Does for late clusters what people ask of them: 'hold' pauses them, 'release' lets them go on, and with
-- 'remove' they make no more jobs. The caller has locked the factories (selected_factories), does the same to
-- their jobs, and calls materialize afterwards. Events: FACTORY_PAUSED (037), FACTORY_RESUMED (038).
CREATE OR REPLACE FUNCTION fetchwork.act_on_factories(
    action text, factories integer [], reason text, code integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    WITH changed AS (
        UPDATE fetchwork.factory AS f
        SET paused = CASE
                WHEN act_on_factories.action = 'remove' THEN 3
                WHEN act_on_factories.action = 'hold' THEN 1
                WHEN f.next_proc = f.jobs THEN 2
                ELSE 0
            END,
            reason = CASE WHEN act_on_factories.action <> 'release' THEN act_on_factories.reason END
        WHERE f.cluster_id = ANY (act_on_factories.factories)
            AND CASE act_on_factories.action
                WHEN 'release' THEN f.paused IN (-1, 1)
                WHEN 'hold' THEN f.paused NOT IN (1, 3)
                ELSE f.paused <> 3
            END
        RETURNING f.cluster_id
    )
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    SELECT
        CASE WHEN act_on_factories.action = 'hold' THEN 37 ELSE 38 END, c.cluster_id, -1,
        jsonb_build_object('Reason', act_on_factories.reason) || CASE
            WHEN act_on_factories.action = 'hold'
                THEN jsonb_build_object('PauseCode', 1, 'HoldCode', act_on_factories.code)
            ELSE '{}'
        END
    FROM changed AS c
    WHERE act_on_factories.action <> 'remove'
    ORDER BY c.cluster_id;
END
$$;
