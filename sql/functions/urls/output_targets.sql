-- The output URLs of a job's ad: output_destination, checkpoint_destination, the targets of remaps, Out and
-- Err. Remaps are "NAME=TARGET; NAME=TARGET"; a backslash removes the special meaning of the next character
-- (sandbox/remaps.py reads them in the same way).
CREATE OR REPLACE FUNCTION fetchwork.output_targets(ad jsonb)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT array_agg(rtrim(t.target, '/'))
    FROM (
        SELECT output_targets.ad ->> n.name AS target
        FROM unnest(ARRAY['OutputDestination', 'CheckpointDestination', 'Out', 'Err']) AS n (name)
        UNION ALL
        SELECT btrim(regexp_replace(r.rule[2], '\\(.)', '\1', 'g'), E' \t\r\n')
        FROM regexp_matches(
                output_targets.ad ->> 'TransferOutputRemaps',
                '((?:[^;=\\]|\\.)*)=((?:[^;\\]|\\.)*)', 'g'
            ) AS r (rule)
    ) AS t
    WHERE t.target LIKE '%://%';
END;
