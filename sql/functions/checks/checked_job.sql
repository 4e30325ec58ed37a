-- Raises FWINV (FWDEN for rights) for a whole job ad, already through checked_ad, that no slot could run.
CREATE OR REPLACE FUNCTION fetchwork.checked_job(ad jsonb, role name)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    size bigint;
    max_size bigint;
BEGIN
    IF coalesce(ad ->> 'Cmd', '') = '' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = 'attribute "Cmd" is missing or empty; allowed: the path of the executable';
    END IF;
    IF ad ->> 'Iwd' IS NOT NULL AND ad ->> 'Iwd' NOT LIKE '/%' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format('attribute "Iwd" is %s; allowed: an absolute path', ad -> 'Iwd');
    END IF;
    IF ad ->> 'RemoteIwd' IS NOT NULL
        AND (ad ->> 'RemoteIwd' NOT LIKE '/%' OR ad ->> 'FetchWorkFiles' IN ('sandbox', 'stored'))
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "RemoteIwd" is %s; '
                'allowed: an absolute path, of a job that has no files transferred',
                left((ad -> 'RemoteIwd')::text, 60)
            );
    END IF;
    IF ad ->> 'Cmd' NOT LIKE '/%' AND ad ->> 'Iwd' IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "Cmd" is %s and there is no Iwd; '
                'allowed: an absolute path, or one relative to Iwd',
                ad -> 'Cmd'
            );
    END IF;
    IF coalesce(ad -> 'JobUniverse', '5') NOT IN ('5', '7', '12') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "JobUniverse" is %s; allowed: 5 (vanilla), 7 (scheduler), 12 (local)',
                ad -> 'JobUniverse'
            );
    END IF;
    IF ad -> 'JobUniverse' = '7' AND coalesce(ad ->> 'FetchWorkAccessPoint', '') = '' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = 'attribute "FetchWorkAccessPoint" is missing in a job of the scheduler universe; '
                'allowed: the name of the access point that runs it';
    END IF;
    IF ad ? 'OtherJobRemoveRequirements' AND fetchwork.dag_of_others(ad) IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "OtherJobRemoveRequirements" is %s; allowed: "DAGManJobId =?= $(Cluster)"',
                left((ad -> 'OtherJobRemoveRequirements')::text, 100)
            );
    END IF;
    IF fetchwork.has_cron(ad) AND fetchwork.next_cron_time(ad, now()) IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = 'the cron schedule never comes; allowed: a day that its months have';
    END IF;
    IF ad ->> 'CheckpointDestination' !~ '^[A-Za-z][A-Za-z0-9+.-]*://.' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "CheckpointDestination" is %s; allowed: a URL',
                left((ad -> 'CheckpointDestination')::text, 100)
            );
    END IF;
    IF fetchwork.container_problem(ad) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = fetchwork.container_problem(ad);
    END IF;
    IF ad ->> 'Owner' IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = 'attribute "Owner" is missing; allowed: an account of the execute hosts';
    END IF;
    IF ad ->> 'Owner' !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'attribute "Owner" is %s; allowed: an account name (letters, digits, _ . -)',
                left((ad -> 'Owner')::text, 60)
            );
    END IF;
    IF lower(ad ->> 'Owner') IN ('root', 'toor') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format('Owner %L is refused: no job runs as root', ad ->> 'Owner');
    END IF;
    IF NOT fetchwork.is_admin(role) AND NOT ad ->> 'Owner' = ANY (fetchwork.own_owners(role)) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L may not submit as Owner %L; allowed: %s',
                role, ad ->> 'Owner',
                coalesce(
                    nullif(array_to_string(fetchwork.own_owners(role), ', '), ''),
                    'none yet: an administrator calls fetchwork.grant_owner'
                )
            );
    END IF;
    IF coalesce(ad ->> 'AccountingGroup', '') <> ''
        AND NOT fetchwork.is_admin(role)
        AND NOT fetchwork.may_charge(role, ad ->> 'AccountingGroup')
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'role %L may not charge AccountingGroup %L; '
                'allowed: %s; an administrator calls fetchwork.grant_group',
                role, ad ->> 'AccountingGroup',
                array_to_string(fetchwork.own_owners(role) || fetchwork.own_groups(role), ', ')
            );
    END IF;
    IF ad ? 'OAuthServicesNeeded' THEN
        PERFORM fetchwork.check_credentials(ad);
    END IF;
    IF NOT EXISTS (
        SELECT FROM fetchwork.queue AS q
        WHERE q.name = coalesce(ad ->> 'FetchWorkQueue', 'default')
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'queue %L does not exist; allowed: %s',
                ad ->> 'FetchWorkQueue',
                (SELECT string_agg(q.name, ', ' ORDER BY q.name) FROM fetchwork.queue AS q)
            );
    END IF;
    IF EXISTS (
        SELECT FROM fetchwork.queue AS q
        WHERE q.name = coalesce(ad ->> 'FetchWorkQueue', 'default') AND q.draining
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWDEN',
            MESSAGE = format(
                'queue %L is draining and takes no new jobs',
                coalesce(ad ->> 'FetchWorkQueue', 'default')
            );
    END IF;
    size := fetchwork.printed_size(ad);
    max_size := fetchwork.setting_value('max_ad_bytes');
    IF size > max_size THEN
        RAISE EXCEPTION USING
            ERRCODE = 'FWINV',
            MESSAGE = format(
                'the job ad is too large: up to %s bytes when printed for the startd; '
                'allowed: %s (setting max_ad_bytes, PIPE_BUFFER_MAX of the hosts)',
                size, max_size
            );
    END IF;
END
$$;
