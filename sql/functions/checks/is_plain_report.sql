-- Whether checked_report would let a report pass as it is.
CREATE OR REPLACE FUNCTION fetchwork.is_plain_report(report jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN jsonb_typeof(report) = 'object'
    AND report::text !~* '"(fetchworktoken|claimid|capability)"';
