-- The attributes of the SUBMIT event of a job with this ad.
CREATE OR REPLACE FUNCTION fetchwork.submission_info(ad jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'SubmitHost', coalesce(host(inet_client_addr()), 'localhost'),
    'LogNotes', ad ->> 'SubmitEventNotes',
    'UserNotes', ad ->> 'SubmitEventUserNotes'
));
