-- The N of an ad's OtherJobRemoveRequirements, "DAGManJobId =?= N": the jobs of DAG N are removed with this
-- job. NULL if the ad has none, or one of another form.
CREATE OR REPLACE FUNCTION fetchwork.dag_of_others(ad jsonb)
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN substring(
    lower(ad ->> 'OtherJobRemoveRequirements')
    FROM '^(?:/expr\()?\s*\(*\s*dagmanjobid\s*(?:=\?=|==|is)\s*([0-9]{1,9})\s*\)*/?$'
)::integer;
