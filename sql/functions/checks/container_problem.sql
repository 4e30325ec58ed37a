-- The reason why no starter could run a job's whole ad in the container that it requests, and the allowed
-- values; NULL if there is no problem. HTCondor runs a job with WantContainer alone bare on the host.
CREATE OR REPLACE FUNCTION fetchwork.container_problem(ad jsonb)
RETURNS text
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT CASE
        WHEN NOT asks.image AND NOT asks.container AND NOT asks.by_configuration THEN NULL
        WHEN asks.image <> asks.container THEN
            'attributes "WantSIF", "WantDockerImage", "WantSandboxImage" and "ContainerImage" do not agree; '
            'allowed: one of the three is true, and ContainerImage is a string'
        WHEN asks.image AND ad ->> 'ContainerImage' LIKE '%://%'
                AND ad ->> 'FetchWorkFiles' IS DISTINCT FROM 'sandbox'
            THEN 'attribute "ContainerImage" is a URL, which HTCondor takes for a file of the job''s Iwd; '
                'allowed: should_transfer_files = YES'
        WHEN ad -> 'WantFTOnCheckpoint' = 'true' AND ad ->> 'FetchWorkFiles' IN ('sandbox', 'stored')
            THEN 'a job in a container saves no checkpoints; '
                'allowed: checkpoint_exit_code without a container, or should_transfer_files = NO'
    END
    FROM (
        SELECT
            coalesce(ad ->> 'ContainerImage', '') <> '' AS image,
            'true' IN (
                coalesce(ad ->> 'WantSIF', ''), coalesce(ad ->> 'WantDockerImage', ''),
                coalesce(ad ->> 'WantSandboxImage', '')
            ) OR coalesce(ad ->> 'WantContainer', '') = 'true' AND coalesce(ad ->> 'ContainerImage', '') = ''
                AS container,
            coalesce(ad ->> 'SingularityImage', '') <> '' AS by_configuration
    ) AS asks;
END;
