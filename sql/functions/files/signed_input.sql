-- What PREPARE_JOB has to know of an input beside described_file where it comes by a presigned URL: that URL,
-- and as "shown" the one that people know. Empty for any other. Errors: FWINV (object_of_url).
CREATE OR REPLACE FUNCTION fetchwork.signed_input(file fetchwork.job_file, ad jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(
            (
                SELECT jsonb_build_object('url', s.signed, 'shown', (signed_input.file).url)
                FROM (
                    SELECT fetchwork.job_url(
                            'GET', (signed_input.file).url, (signed_input.file).cluster_id, signed_input.ad
                        ) AS signed
                ) AS s
                WHERE s.signed IS NOT NULL
            ),
            '{}'
        );
END;
