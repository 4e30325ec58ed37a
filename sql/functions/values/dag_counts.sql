-- The attributes about nodes in the report of a DAG's job (fetchwork/dag/status.py), which DAGMan has in its
-- ad at a schedd.
CREATE OR REPLACE FUNCTION fetchwork.dag_counts(report jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN CASE
    WHEN report ? 'DAG_NodesTotal' THEN jsonb_strip_nulls(jsonb_build_object(
        'DAG_NodesTotal', fetchwork.integer_of(report -> 'DAG_NodesTotal'),
        'DAG_NodesDone', fetchwork.integer_of(report -> 'DAG_NodesDone'),
        'DAG_NodesPrerun', fetchwork.integer_of(report -> 'DAG_NodesPrerun'),
        'DAG_NodesQueued', fetchwork.integer_of(report -> 'DAG_NodesQueued'),
        'DAG_NodesPostrun', fetchwork.integer_of(report -> 'DAG_NodesPostrun'),
        'DAG_NodesReady', fetchwork.integer_of(report -> 'DAG_NodesReady'),
        'DAG_NodesUnready', fetchwork.integer_of(report -> 'DAG_NodesUnready'),
        'DAG_NodesFailed', fetchwork.integer_of(report -> 'DAG_NodesFailed'),
        'DAG_NodesFutile', fetchwork.integer_of(report -> 'DAG_NodesFutile')
    ))
    ELSE '{}'
END;
