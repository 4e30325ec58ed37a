-- The facts that a start adds to its job. resources: those of its slot (provisioned).
CREATE OR REPLACE FUNCTION fetchwork.start_facts(claimed_at timestamptz, resources jsonb)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'LastJobStatus', 1,
    'LastMatchTime', extract(epoch FROM claimed_at)::bigint,
    'CpusProvisioned', resources -> 'Cpus',
    'MemoryProvisioned', resources -> 'Memory',
    'DiskProvisioned', resources -> 'Disk',
    'GPUsProvisioned', CASE WHEN resources ? 'Cpus' THEN coalesce(resources -> 'GPUs', '0') END
));
