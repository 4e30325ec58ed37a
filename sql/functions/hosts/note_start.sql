-- Distinguishes black holes from bad jobs: counts the bad starts of a host in a row (a job could not start,
-- or failed at once). A good run ends the count (note_good_run). A job that fails at once does not show
-- whether the host or the job is at fault.
-- - A host is taken for a black hole when the jobs of several owners fail on it, with no good run between. An
--   owner counts from the second job on, and for half of the setting black_hole_runs at most; so at least two
--   owners have several broken jobs each, here and now. Owners, because one person may have several
--   accounting groups.
-- - An owner does not count if the host did well after jobs of the owner had failed there (blamed_until).
-- - If the jobs of one owner fail in a row, of at least two autoclusters, and the autocluster that failed
--   last runs well on another host, this host backs off from this owner alone: others can't know whether
--   these programs fail by intent.
-- A black hole is offered one job at a time. The first of an owner whose jobs have not failed there may start
-- at once; after each failure, the next one waits longer. The owners whose jobs failed there have probes of
-- their own (turned_away), so they do not delay the others' probes.
-- Locks: the host's row, to the end of the transaction, only if a start is or was bad; so two bad starts are
-- counted one after the other.
CREATE OR REPLACE FUNCTION fetchwork.note_start(live fetchwork.run, good boolean, reason text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    failing fetchwork.host;
    its fetchwork.failing_owner;
    its_owner text;
    well text;
    job text := fetchwork.job_id(live.cluster_id, live.proc_id);
    at timestamptz := clock_timestamp();
    many integer := ceil(fetchwork.setting_value('black_hole_runs'));
    half integer := (many + 1) / 2;
    proven boolean;
    was_newcomer boolean;
BEGIN
    -- an access point runs jobs that were submitted there, and can't be a black hole
    IF EXISTS (
        SELECT FROM fetchwork.host AS h
        WHERE h.host_id = live.host_id AND h.access_point
    ) THEN
        RETURN;
    END IF;
    SELECT a.owner
    INTO its_owner
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = live.autocluster_id;
    IF good THEN
        PERFORM fetchwork.note_good_run(live.host_id, its_owner);
        RETURN;
    END IF;

    UPDATE fetchwork.host AS h
    SET bad_starts = h.bad_starts + 1,
        bad_since = coalesce(h.bad_since, at),
        bad_reason = note_start.reason
    WHERE h.host_id = live.host_id
    RETURNING h.* INTO failing;
    was_newcomer := NOT EXISTS (
        SELECT FROM fetchwork.failing_owner AS f
        WHERE f.host_id = live.host_id AND f.owner = its_owner
    );
    INSERT INTO fetchwork.failing_owner AS f (host_id, owner, bad_jobs, bad_autoclusters, last_bad_at)
    VALUES (live.host_id, its_owner, ARRAY[job], ARRAY[live.autocluster_id], at)
    ON CONFLICT (host_id, owner) DO UPDATE SET
        bad_jobs = CASE
            WHEN f.blamed_until < at THEN excluded.bad_jobs
            WHEN job = ANY (f.bad_jobs) OR cardinality(f.bad_jobs) >= many THEN f.bad_jobs
            ELSE f.bad_jobs || job
        END,
        bad_autoclusters = CASE
            WHEN live.autocluster_id = ANY (f.bad_autoclusters) OR cardinality(f.bad_autoclusters) > 1
                THEN f.bad_autoclusters
            ELSE f.bad_autoclusters || live.autocluster_id
        END,
        blamed_until = CASE WHEN f.blamed_until >= at THEN f.blamed_until END,
        last_bad_at = at
    RETURNING f.* INTO its;

    IF failing.black_hole_since IS NOT NULL THEN
        -- a run claimed before the host became a black hole is not a probe
        IF live.claimed_at < failing.black_hole_since THEN
            RETURN;
        END IF;
        UPDATE fetchwork.host AS h
        SET probes = h.probes + CASE WHEN was_newcomer THEN 0 ELSE 1 END,
            next_probe_at = CASE
                WHEN was_newcomer THEN h.next_probe_at
                ELSE at + fetchwork.probe_rest(h.probes + 1)
            END,
            newcomer_probes = h.newcomer_probes + CASE WHEN was_newcomer THEN 1 ELSE 0 END,
            newcomer_probe_at = CASE
                WHEN was_newcomer THEN at + fetchwork.probe_rest(h.newcomer_probes)
                ELSE h.newcomer_probe_at
            END
        WHERE h.host_id = live.host_id;
        RETURN;
    END IF;

    IF its.rest_until IS NOT NULL THEN
        IF live.claimed_at >= its.rest_until THEN
            UPDATE fetchwork.failing_owner AS f
            SET rests = f.rests + 1, rest_until = at + fetchwork.probe_rest(f.rests + 1)
            WHERE f.host_id = live.host_id AND f.owner = its_owner;
        END IF;
    ELSIF cardinality(its.bad_jobs) >= many
        AND cardinality(its.bad_autoclusters) >= 2
        AND fetchwork.runs_elsewhere(live)
    THEN
        UPDATE fetchwork.failing_owner AS f
        SET rest_until = at + fetchwork.probe_rest(0)
        WHERE f.host_id = live.host_id AND f.owner = its_owner;
    END IF;

    SELECT count(*) > 1 AND sum(least(cardinality(f.bad_jobs), half)) >= many
    INTO proven
    FROM fetchwork.failing_owner AS f
    WHERE f.host_id = live.host_id
        AND f.blamed_until IS NULL
        AND f.last_bad_at >= failing.bad_since
        AND cardinality(f.bad_jobs) >= least(half, 2);
    IF NOT proven THEN
        RETURN;
    END IF;
    well := (SELECT w.owner FROM fetchwork.runs_well(live.host_id, failing.bad_since) AS w LIMIT 1);
    IF well IS NOT NULL THEN
        PERFORM fetchwork.note_good_run(live.host_id, well);
        RETURN;
    END IF;
    UPDATE fetchwork.host AS h
    SET black_hole_since = at,
        probes = 0,
        next_probe_at = at + fetchwork.probe_rest(0),
        newcomer_probes = 0,
        newcomer_probe_at = at
    WHERE h.host_id = live.host_id;
END
$$;
