-- The attributes of the SUBMIT event of a job with this ad; without submit_host its host is the caller's.
CREATE OR REPLACE FUNCTION fetchwork.submission_info(ad jsonb, submit_host text DEFAULT NULL)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'SubmitHost', coalesce(submit_host, host(inet_client_addr()), 'localhost'),
    'LogNotes', ad ->> 'SubmitEventNotes',
    'UserNotes', ad ->> 'SubmitEventUserNotes'
));
