-- Whether checked_report would return a report unchanged.
CREATE OR REPLACE FUNCTION fetchwork.is_plain_report(report jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN jsonb_typeof(report) = 'object'
    AND report::text !~* '"(fetchworktoken|claimid|capability)"';
