-- A file of a job as JSON, for the process that transfers it.
CREATE OR REPLACE FUNCTION fetchwork.described_file(file fetchwork.job_file)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'direction', file.direction,
    'name', file.name,
    'mode', file.permissions,
    'size', file.size,
    'source', CASE
        WHEN file.url IS NOT NULL THEN 'url'
        WHEN file.content_id IS NOT NULL THEN 'content'
        WHEN file.name LIKE '%/' THEN 'directory'
        ELSE 'shared'
    END,
    'content_id', file.content_id,
    'sha256', (
        SELECT encode(c.sha256, 'hex')
        FROM fetchwork.content AS c
        WHERE c.content_id = file.content_id
    ),
    'in_bucket', (
        SELECT true
        FROM fetchwork.content AS c
        WHERE c.content_id = file.content_id AND c.bucket_id IS NOT NULL
    ),
    'path', file.path,
    'url', file.url
));
