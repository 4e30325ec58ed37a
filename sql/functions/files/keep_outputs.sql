-- Keeps the outputs of a live run, before the run's finish: from then on they can be delivered (job_outputs).
-- If the run does not end by itself, they are deleted. With spool: keeps files for the job's next run
-- (run_files), saved while the run goes on or as it is evicted; they replace the files saved earlier, all at
-- once. "checkpoint" is its number, which the job's ad has from then on. A repeated call replaces the files
-- that were kept of the run. Returns 'kept', 'late' if the run is over, or 'busy', with nothing done, while
-- another transaction is about to end the run.
-- manifest: [{"name", "mode", "size", "sha256" in hex}], with contents of this run (begin_content); for a
-- directory {"name": "d/", "mode"}; for a file that a plugin uploaded elsewhere {"name", "size", "url"}.
-- Errors: FWTOK (another run's token), FWDEN (more than max_job_file_bytes), FWINV (a name, an incomplete
-- content).
-- Locks: only the run's own rows; with spool the run, without waiting, so that no next run begins meanwhile.
CREATE OR REPLACE FUNCTION fetchwork.keep_outputs(
    run_id bigint,
    token uuid,
    manifest jsonb,
    spool boolean DEFAULT false,
    checkpoint integer DEFAULT NULL
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(keep_outputs.run_id, keep_outputs.token);
    kept_as text := CASE WHEN spool THEN 'spool' ELSE 'output' END;
    refused text;
    bytes numeric;
    replaced bigint[];
    allowed numeric := fetchwork.setting_value('max_job_file_bytes');
    of_owner text;
BEGIN
    IF live.run_id IS NULL THEN
        RETURN 'late';
    END IF;
    IF spool THEN
        PERFORM FROM fetchwork.run AS r
        WHERE r.run_id = live.run_id
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN CASE
                WHEN EXISTS (SELECT FROM fetchwork.run AS r WHERE r.run_id = live.run_id) THEN 'busy'
                ELSE 'late'
            END;
        END IF;
    END IF;
    SELECT left(f.file ->> 'name', 200)
    INTO refused
    FROM jsonb_array_elements(manifest) AS f (file)
    WHERE NOT fetchwork.is_sandbox_name(f.file ->> 'name')
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'an output is called %; allowed: a relative path without "..", at most 4096 bytes',
            quote_nullable(refused) USING ERRCODE = 'FWINV';
    END IF;
    SELECT coalesce(sum((f.file ->> 'size')::numeric) FILTER (WHERE f.file ? 'sha256'), 0)
    INTO bytes
    FROM jsonb_array_elements(manifest) AS f (file);
    IF bytes > allowed THEN
        RAISE EXCEPTION 'the job leaves % bytes of files; allowed: % (setting max_job_file_bytes)',
            bytes, allowed USING ERRCODE = 'FWDEN';
    END IF;
    SELECT j.owner
    INTO of_owner
    FROM fetchwork.job AS j
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    -- a content outside the manifest was abandoned, because its file changed during the upload
    PERFORM fetchwork.complete_content(c.content_id)
    FROM fetchwork.content AS c
    WHERE c.run_id = live.run_id
        AND NOT c.complete
        AND (encode(c.sha256, 'hex'), c.size) IN (
            SELECT f.file ->> 'sha256', (f.file ->> 'size')::bigint
            FROM jsonb_array_elements(manifest) AS f (file)
        );

    DELETE FROM fetchwork.job_file AS f
    WHERE f.cluster_id = live.cluster_id
        AND f.proc_id = live.proc_id
        AND f.direction = kept_as
        AND f.run_id = live.run_id;
    INSERT INTO fetchwork.job_file (
        cluster_id, proc_id, direction, run_id, owner, name, permissions, size, content_id, url
    )
    SELECT DISTINCT ON (f.file ->> 'name')
        live.cluster_id, live.proc_id, kept_as, live.run_id, of_owner, f.file ->> 'name',
        coalesce((f.file ->> 'mode')::integer & 511, 420), coalesce((f.file ->> 'size')::bigint, 0),
        c.content_id, f.file ->> 'url'
    FROM jsonb_array_elements(manifest) WITH ORDINALITY AS f (file, n)
    LEFT JOIN fetchwork.content AS c ON c.run_id = live.run_id
        AND encode(c.sha256, 'hex') = f.file ->> 'sha256'
        AND c.size = (f.file ->> 'size')::bigint
    -- of two entries of one name the later one counts, as when HTCondor writes them
    ORDER BY f.file ->> 'name', f.n DESC;
    SELECT f.name
    INTO refused
    FROM fetchwork.job_file AS f
    WHERE f.cluster_id = live.cluster_id
        AND f.proc_id = live.proc_id
        AND f.direction = kept_as
        AND f.run_id = live.run_id
        AND f.content_id IS NULL
        AND f.url IS NULL
        AND f.name NOT LIKE '%/'
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'output % has no content of this run; allowed: one of begin_content',
            quote_nullable(refused) USING ERRCODE = 'FWINV';
    END IF;
    IF spool THEN
        WITH gone AS (
            DELETE FROM fetchwork.job_file AS f
            WHERE f.cluster_id = live.cluster_id
                AND f.proc_id = live.proc_id
                AND f.direction = 'spool'
                AND f.run_id < live.run_id
            RETURNING f.content_id
        )
        SELECT array_agg(DISTINCT g.content_id)
        INTO replaced
        FROM gone AS g;
        PERFORM fetchwork.note_stored(live.cluster_id, live.proc_id, live.run_id);
        -- and the contents that this run saved before
        PERFORM fetchwork.delete_contents(replaced || ARRAY(
            SELECT c.content_id
            FROM fetchwork.content AS c
            WHERE c.run_id = live.run_id
                AND NOT EXISTS (SELECT FROM fetchwork.job_file AS f WHERE f.content_id = c.content_id)
        ));
        UPDATE fetchwork.run AS r
        SET transfer = coalesce(r.transfer, '{}') || jsonb_strip_nulls(jsonb_build_object(
            'CheckpointNumber', keep_outputs.checkpoint,
            'LastCkptTime', extract(epoch FROM clock_timestamp())::bigint
        ))
        WHERE r.run_id = live.run_id;
    END IF;
    RETURN 'kept';
END
$$;
