-- Notes the directory of a live run's credentials on its host, and the versions there ({"NAME": version}),
-- from which changed_credentials finds those to replace, also for an agent that was restarted. False if the
-- run is over. Errors: FWTOK (another run's token). Locks: the run.
CREATE OR REPLACE FUNCTION fetchwork.note_credentials(
    run_id bigint,
    token uuid,
    directory text,
    versions jsonb
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run := fetchwork.file_run(note_credentials.run_id, note_credentials.token);
BEGIN
    UPDATE fetchwork.run AS r
    SET credentials = jsonb_build_object(
        'directory', note_credentials.directory, 'versions', note_credentials.versions
    )
    WHERE r.run_id = live.run_id;
    RETURN FOUND;
END
$$;
