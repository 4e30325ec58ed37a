-- An input's presigned URL, and as "shown" the URL that people know, for PREPARE_JOB, beside described_file.
-- Empty for other inputs, and for a file of a checkpoint whose URL is of no output of the job: an earlier run
-- named it, and the job could have forged that. Errors: FWINV (object_of_url).
CREATE OR REPLACE FUNCTION fetchwork.signed_input(file fetchwork.job_file, ad jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
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
                    AND (
                        (signed_input.file).direction = 'input'
                        OR fetchwork.is_output_url(
                            fetchwork.transfer_ad(signed_input.ad), (signed_input.file).url
                        )
                    )
            ),
            '{}'
        );
END;
