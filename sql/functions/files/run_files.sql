-- The facts that PREPARE_JOB and JOB_EXIT of a live run need: the job's Owner, the attributes of its ad about
-- files (transfer_ad, with the CheckpointNumber of the files saved last, and GlobalJobId for a
-- checkpoint_destination), and the files for the host: the inputs, then the files of the last run that saved
-- any (direction "spool"), which overwrite inputs. No row if the run is over. A file: {"direction", "name",
-- "mode", "size", "source": "content" | "url" | "shared" | "directory", "content_id", "sha256" in hex,
-- "path", "url"}; for a presigned URL, "shown" is the URL that people know. Locks nothing.
-- Errors: FWTOK (another run's token), FWINV (object_of_url).
CREATE OR REPLACE FUNCTION fetchwork.run_files(run_id bigint, token uuid)
RETURNS TABLE (owner text, ad jsonb, files jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(run_files.run_id, run_files.token);
BEGIN
    IF live.run_id IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT
        j.owner,
        fetchwork.transfer_ad(c.ad || j.ad) || jsonb_build_object(
            'ClusterId', j.cluster_id, 'ProcId', j.proc_id
        ) || jsonb_strip_nulls(jsonb_build_object('CheckpointNumber', j.facts -> 'CheckpointNumber')) || CASE
            WHEN (c.ad || j.ad) ? 'CheckpointDestination' THEN
                jsonb_build_object(
                    'GlobalJobId', fetchwork.global_job_id(j.cluster_id, j.proc_id, j.q_date)
                )
            ELSE '{}'
        END,
        (
            SELECT coalesce(jsonb_agg(
                fetchwork.described_file(f) || fetchwork.signed_input(f, c.ad || j.ad)
                ORDER BY f.direction, f.proc_id, f.name
            ), '[]')
            FROM fetchwork.job_file AS f
            WHERE f.cluster_id = live.cluster_id
                AND f.proc_id IN (-1, live.proc_id)
                AND (
                    f.direction = 'input'
                    OR (
                        f.direction = 'spool'
                        AND f.run_id = (
                            SELECT max(s.run_id)
                            FROM fetchwork.job_file AS s
                            WHERE s.cluster_id = live.cluster_id
                                AND s.proc_id = live.proc_id
                                AND s.direction = 'spool'
                                AND s.run_id < live.run_id
                        )
                    )
                )
        )
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
END
$$;
