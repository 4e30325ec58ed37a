-- Whether a URL is an output URL of a job's ad (transfer_ad), or below one: the job's key signs no other for
-- what the job itself says.
CREATE OR REPLACE FUNCTION fetchwork.is_output_url(ad jsonb, url text)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT is_output_url.url !~ '/[.]{1,2}(/|$)' AND EXISTS (
            SELECT FROM unnest(fetchwork.output_targets(is_output_url.ad)) AS t (target)
            WHERE is_output_url.url = t.target OR starts_with(is_output_url.url, t.target || '/')
        );
END;
