-- Raises FWINV (FWDEN for rights) for a whole job ad, already through checked_ad, that no slot could run.
CREATE OR REPLACE FUNCTION fetchwork.checked_job(ad jsonb, role name)
RETURNS void
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    draining boolean;
    size bigint;
    max_size bigint;
BEGIN
    IF coalesce(ad ->> 'Cmd', '') = '' THEN
        RAISE EXCEPTION 'attribute "Cmd" is missing or empty; allowed: the path of the executable'
            USING ERRCODE = 'FWINV';
    END IF;
    IF ad ->> 'Iwd' IS NOT NULL AND ad ->> 'Iwd' NOT LIKE '/%' THEN
        RAISE EXCEPTION 'attribute "Iwd" is %; allowed: an absolute path',
            ad -> 'Iwd' USING ERRCODE = 'FWINV';
    END IF;
    IF ad ->> 'RemoteIwd' IS NOT NULL
        AND (ad ->> 'RemoteIwd' NOT LIKE '/%' OR ad ->> 'FetchWorkFiles' IN ('sandbox', 'stored'))
    THEN
        RAISE EXCEPTION 'attribute "RemoteIwd" is %; allowed: an absolute path, of a job that has no files '
            'transferred',
            left((ad -> 'RemoteIwd')::text, 60) USING ERRCODE = 'FWINV';
    END IF;
    IF ad ->> 'Cmd' NOT LIKE '/%' AND ad ->> 'Iwd' IS NULL THEN
        RAISE EXCEPTION 'attribute "Cmd" is % and there is no Iwd; allowed: an absolute path, or one '
            'relative to Iwd',
            ad -> 'Cmd' USING ERRCODE = 'FWINV';
    END IF;
    -- a startd would run a job of the local universe (12), and not the submit host as that universe says
    IF coalesce(ad -> 'JobUniverse', '5') NOT IN ('5', '7') THEN
        RAISE EXCEPTION 'attribute "JobUniverse" is %; allowed: 5 (vanilla), 7 (scheduler)',
            ad -> 'JobUniverse' USING ERRCODE = 'FWINV';
    END IF;
    IF ad -> 'JobUniverse' = '7' AND coalesce(ad ->> 'FetchWorkAccessPoint', '') = '' THEN
        RAISE EXCEPTION 'attribute "FetchWorkAccessPoint" is missing in a job of the scheduler universe; '
            'allowed: the name of the access point that runs it'
            USING ERRCODE = 'FWINV';
    END IF;
    IF ad ? 'OtherJobRemoveRequirements' AND fetchwork.dag_of_others(ad) IS NULL THEN
        RAISE EXCEPTION 'attribute "OtherJobRemoveRequirements" is %; allowed: "DAGManJobId =?= $(Cluster)"',
            left((ad -> 'OtherJobRemoveRequirements')::text, 100) USING ERRCODE = 'FWINV';
    END IF;
    IF fetchwork.has_cron(ad) AND fetchwork.next_cron_time(ad, now()) IS NULL THEN
        RAISE EXCEPTION 'the cron schedule never comes; allowed: a day that its months have'
            USING ERRCODE = 'FWINV';
    END IF;
    IF ad ->> 'CheckpointDestination' !~ '^[A-Za-z][A-Za-z0-9+.-]*://.' THEN
        RAISE EXCEPTION 'attribute "CheckpointDestination" is %; allowed: a URL',
            left((ad -> 'CheckpointDestination')::text, 100) USING ERRCODE = 'FWINV';
    END IF;
    IF fetchwork.container_problem(ad) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = fetchwork.container_problem(ad);
    END IF;
    IF ad ->> 'Owner' IS NULL THEN
        RAISE EXCEPTION 'attribute "Owner" is missing; allowed: an account of the execute hosts'
            USING ERRCODE = 'FWINV';
    END IF;
    IF ad ->> 'Owner' !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$' THEN
        RAISE EXCEPTION 'attribute "Owner" is %; allowed: an account name (letters, digits, _ . -)',
            left((ad -> 'Owner')::text, 60) USING ERRCODE = 'FWINV';
    END IF;
    IF lower(ad ->> 'Owner') IN ('root', 'toor') THEN
        RAISE EXCEPTION 'Owner % is refused: no job runs as root; name another account (owner=, --owner)',
            quote_nullable(ad ->> 'Owner') USING ERRCODE = 'FWDEN';
    END IF;
    IF NOT fetchwork.is_admin(role) AND NOT ad ->> 'Owner' = ANY (fetchwork.own_owners(role)) THEN
        RAISE EXCEPTION 'role % may not submit as Owner %; allowed: %',
            quote_nullable(role), quote_nullable(ad ->> 'Owner'),
            coalesce(
                nullif(array_to_string(fetchwork.own_owners(role), ', '), ''),
                'none yet: an administrator calls fetchwork.grant_owner'
            )
            USING ERRCODE = 'FWDEN';
    END IF;
    IF coalesce(ad ->> 'AccountingGroup', '') <> ''
        AND NOT fetchwork.is_admin(role)
        AND NOT fetchwork.may_charge(role, ad ->> 'AccountingGroup')
    THEN
        RAISE EXCEPTION 'role % may not charge AccountingGroup %; allowed: %; an administrator calls '
            'fetchwork.grant_group',
            quote_nullable(role), quote_nullable(ad ->> 'AccountingGroup'),
            array_to_string(fetchwork.own_owners(role) || fetchwork.own_groups(role), ', ')
            USING ERRCODE = 'FWDEN';
    END IF;
    IF ad ? 'OAuthServicesNeeded' THEN
        PERFORM fetchwork.check_credentials(ad);
    END IF;
    draining := (
        SELECT q.draining
        FROM fetchwork.queue AS q
        WHERE q.name = coalesce(ad ->> 'FetchWorkQueue', 'default')
    );
    IF draining IS NULL THEN
        RAISE EXCEPTION 'queue % does not exist; allowed: %',
            quote_nullable(ad ->> 'FetchWorkQueue'),
            (SELECT string_agg(q.name, ', ' ORDER BY q.name) FROM fetchwork.queue AS q)
            USING ERRCODE = 'FWINV';
    ELSIF draining THEN
        RAISE EXCEPTION 'queue % is draining and takes no new jobs',
            quote_nullable(coalesce(ad ->> 'FetchWorkQueue', 'default')) USING ERRCODE = 'FWDEN';
    END IF;
    size := fetchwork.printed_size(ad);
    max_size := fetchwork.setting_value('max_ad_bytes');
    IF size > max_size THEN
        RAISE EXCEPTION 'the job ad is too large: up to % bytes when printed for the startd; allowed: % '
            '(setting max_ad_bytes, PIPE_BUFFER_MAX of the hosts)',
            size, max_size USING ERRCODE = 'FWINV';
    END IF;
END
$$;
