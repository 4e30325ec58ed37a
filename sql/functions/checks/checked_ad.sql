-- A submitter's ad with every attribute in HTCondor's spelling and without the attributes that fetchwork sets
-- itself. Called for the common part of a cluster and for each job's own part, so it requires no attribute;
-- checked_job requires some of the whole. The check is here and not in the clients because every way into the
-- queue passes this function. Errors: FWINV (an impossible attribute).
CREATE OR REPLACE FUNCTION fetchwork.checked_ad(ad jsonb)
RETURNS jsonb
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    problem text;
    max_attribute_bytes bigint := fetchwork.setting_value('max_attribute_bytes');
    max_job_bytes bigint := fetchwork.setting_value('max_job_bytes');
    checked jsonb;
BEGIN
    IF ad = '{}' THEN
        RETURN ad;
    END IF;
    IF ad IS NULL OR jsonb_typeof(ad) <> 'object' THEN
        RAISE EXCEPTION 'a job ad is not a JSON object; allowed: {"Cmd": "/bin/true", "Owner": "alice", ...}'
            USING ERRCODE = 'FWINV';
    END IF;

    IF octet_length(ad::text) > max_job_bytes THEN
        RAISE EXCEPTION 'the job ad has % bytes; allowed: % (setting max_job_bytes)',
            octet_length(ad::text), max_job_bytes USING ERRCODE = 'FWINV';
    END IF;
    SELECT CASE
        -- not as {0,255}: its automaton is built and walked with a state for each character
        WHEN e.key !~ '^[A-Za-z_][A-Za-z0-9_]*$' OR length(e.key) > 256
            THEN format(
                '%s is not an attribute name; allowed: letters, digits and _, not a digit first',
                left(to_json(e.key)::text, 80)
            )
        WHEN lower(e.key) IN ('true', 'false', 'undefined', 'error', 'is', 'isnt', 'parent')
            THEN format(
                'attribute name "%s" is a word of the ClassAd language; allowed: any other name', e.key
            )
        WHEN a.rule = 'forbidden' OR (a.key IS NULL AND lower(e.key) LIKE 'fetchwork%')
            THEN format('attribute "%s" is set by fetchwork only; allowed: leave it out', e.key)
        WHEN a.rule = 'unhonoured'
                AND NOT a.harmless @> jsonb_build_array(e.value)
                AND e.value NOT IN ('null', '"/Expr(undefined)/"')
            THEN format(
                'attribute "%s" = %s can''t be honoured: %s',
                a.name, fetchwork.shown_value(e.value), a.note
            )
        WHEN lower(e.key) IN (
                    'cmd', 'iwd', 'owner', 'in', 'out', 'err', 'starteruserlog', 'userlog', 'accountinggroup',
                    'acctgroup', 'fetchworkqueue', 'jobbatchname'
                )
                AND jsonb_typeof(e.value) = 'string'
                AND (e.value #>> '{}') ~ '[\x01-\x1f\x7f]'
            THEN format('attribute "%s" has a control character; allowed: none', a.name)
        WHEN lower(e.key) IN ('cmd', 'iwd', 'owner', 'in', 'out', 'err', 'fetchworkqueue')
                AND (jsonb_typeof(e.value) <> 'string' OR fetchwork.is_expression(e.value))
                AND NOT (lower(e.key) = 'owner' AND e.value IN ('null', '"/Expr(undefined)/"'))
            THEN format('attribute "%s" is %s; allowed: a string', a.name, fetchwork.shown_value(e.value))
        WHEN jsonb_typeof(e.value) IN ('number', 'array', 'object')
                AND jsonb_path_exists(
                    e.value,
                    '$.** ? (@.type() == "number" && (@ > 9223372036854775807 || @ < -9223372036854775808))'
                )
            THEN format(
                'attribute "%s" is a number of more than 64 bits, or holds one; '
                'allowed: an expression such as "/Expr(1E+300)/"',
                e.key
            )
        WHEN a.key = 'fetchworkfiles' AND e.value::text !~ '^"(sandbox|stored|shared:/[^"]*)"$'
            THEN format(
                'attribute "FetchWorkFiles" is %s; allowed: "sandbox", "stored", "shared:/DIRECTORY,..."',
                fetchwork.shown_value(e.value)
            )
        WHEN a.key = 'oauthservicesneeded'
                AND e.value <> 'null'
                AND (
                    jsonb_typeof(e.value) <> 'string'
                    OR octet_length(e.value #>> '{}') > 2000
                    OR (e.value #>> '{}') !~ '^([\s,]*[A-Za-z0-9][A-Za-z0-9_.-]*(\*[A-Za-z0-9_.-]+)?)*[\s,]*$'
                )
            THEN format(
                'attribute "OAuthServicesNeeded" is %s; allowed: SERVICE or SERVICE*HANDLE, several by comma',
                fetchwork.shown_value(e.value)
            )
        WHEN lower(e.key) IN ('accountinggroup', 'concurrencylimits', 'jobbatchname') AND e.value <> 'null'
                AND (jsonb_typeof(e.value) <> 'string' OR fetchwork.is_expression(e.value))
            THEN format('attribute "%s" is %s; allowed: a string', a.name, fetchwork.shown_value(e.value))
        -- a claim that counts limits must be able to read each amount
        WHEN lower(e.key) = 'concurrencylimits'
                AND (e.value #>> '{}') !~ '^[\s,]*([A-Za-z0-9_.]+(:[0-9]{1,9}(\.[0-9]{1,9})?)?([\s,]+|$))*$'
            THEN format(
                'attribute "ConcurrencyLimits" is %s; allowed: NAME or NAME:AMOUNT, several by comma',
                fetchwork.shown_value(e.value)
            )
        WHEN lower(e.key) = 'jobprio'
                AND (jsonb_typeof(e.value) <> 'number' OR e.value::text !~ '^-?[0-9]{1,9}$')
            THEN format('attribute "JobPrio" is %s; allowed: an integer', fetchwork.shown_value(e.value))
        WHEN lower(e.key) IN ('requestcpus', 'requestmemory', 'requestdisk', 'requestgpus')
                AND NOT fetchwork.is_expression(e.value)
                AND (jsonb_typeof(e.value) <> 'number' OR e.value::text LIKE '-%')
            THEN format(
                'attribute "%s" is %s; allowed: a number not below 0, or an expression',
                a.name, fetchwork.shown_value(e.value)
            )
        WHEN lower(e.key) IN ('requestcpus', 'requestmemory', 'requestdisk', 'requestgpus')
                AND jsonb_typeof(e.value) = 'number'
                AND e.value NOT IN ('0', '0.0')
                AND NOT e.value::numeric BETWEEN 0.000001
                AND CASE lower(e.key) WHEN 'requestdisk' THEN 1e15 ELSE 2147483647 END
            THEN format(
                'attribute "%s" is %s; allowed: 0, or 0.000001 to %s',
                a.name, fetchwork.shown_value(e.value),
                CASE lower(e.key) WHEN 'requestdisk' THEN '1E15' ELSE '2147483647' END
            )
        WHEN octet_length(e.value::text) > CASE
                    WHEN lower(e.key) IN ('accountinggroup', 'acctgroup', 'acctgroupuser') THEN 250
                    -- the most that an index can hold
                    WHEN lower(e.key) IN ('jobbatchname', 'userlog') THEN 2000
                    ELSE max_attribute_bytes
                END
            THEN format(
                'attribute "%s" has %s bytes; allowed: %s',
                e.key, octet_length(e.value::text), CASE
                    WHEN lower(e.key) IN ('accountinggroup', 'acctgroup', 'acctgroupuser') THEN '250'
                    WHEN lower(e.key) IN ('jobbatchname', 'userlog') THEN '2000'
                    ELSE format('%s (setting max_attribute_bytes)', max_attribute_bytes)
                END
            )
        WHEN a.key = 'traceparent'
                AND e.value <> 'null'
                AND e.value::text !~ '^"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"$'
            THEN format(
                'attribute "TraceParent" is %s; allowed: a traceparent of W3C Trace Context, such as '
                '"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"',
                fetchwork.shown_value(e.value)
            )
        WHEN a.key IN ('deferraltime', 'deferralwindow', 'deferralpreptime')
                AND NOT fetchwork.is_expression(e.value)
                AND e.value <> 'null'
                AND (jsonb_typeof(e.value) <> 'number' OR e.value::text !~ '^[0-9]{1,12}$')
            THEN format(
                'attribute "%s" is %s; allowed: seconds, an integer not below 0, or an expression',
                a.name, fetchwork.shown_value(e.value)
            )
        WHEN a.key IN ('cronminute', 'cronhour', 'crondayofmonth', 'cronmonth', 'crondayofweek')
                AND e.value <> 'null'
                AND (
                    jsonb_typeof(e.value) <> 'string'
                    OR fetchwork.cron_values(
                        e.value #>> '{}',
                        CASE WHEN a.key IN ('crondayofmonth', 'cronmonth') THEN 1 ELSE 0 END,
                        CASE a.key
                            WHEN 'cronminute' THEN 59 WHEN 'cronhour' THEN 23 WHEN 'crondayofmonth' THEN 31
                            WHEN 'cronmonth' THEN 12 ELSE 7
                        END
                    ) IS NULL
                )
            THEN format(
                'attribute "%s" is %s; '
                'allowed: a field of a cron schedule, such as "*", "0-59/15" or "5,20", '
                'of at most 500 characters',
                a.name, fetchwork.shown_value(e.value)
            )
        WHEN a.key = 'fetchworktimezone'
                AND e.value <> 'null'
                AND NOT (
                    jsonb_typeof(e.value) = 'string'
                    AND coalesce(fetchwork.is_time_zone(e.value #>> '{}'), false)
                )
            THEN format(
                'attribute "FetchWorkTimeZone" is %s; allowed: a time zone, such as "Europe/Berlin"',
                fetchwork.shown_value(e.value)
            )
        -- a short value has no such problem, unless it is an expression
        WHEN (octet_length(e.value::text) > 200 OR fetchwork.is_expression(e.value))
                AND fetchwork.value_problem(e.value) IS NOT NULL
            THEN format('attribute "%s" %s', e.key, fetchwork.value_problem(e.value))
        WHEN fetchwork.is_expression(e.value) AND (e.value #>> '{}') ~ '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]'
            THEN format(
                'attribute "%s" has a control character in its expression; '
                'allowed: escape it inside a string',
                e.key
            )
    END
    INTO problem
    FROM jsonb_each(ad) AS e
    LEFT JOIN fetchwork.attribute AS a ON a.key = lower(e.key)
    ORDER BY 1 NULLS LAST
    LIMIT 1;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = problem;
    END IF;

    SELECT format(
        'attribute "%s" is given twice, as %s; allowed: once',
        min(e.key), string_agg(to_json(e.key)::text, ' and ')
    )
    INTO problem
    FROM jsonb_object_keys(ad) AS e (key)
    GROUP BY lower(e.key)
    HAVING count(*) > 1
    LIMIT 1;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = problem;
    END IF;

    SELECT coalesce(jsonb_object_agg(coalesce(a.name, e.key), e.value), '{}')
    INTO checked
    FROM jsonb_each(ad) AS e
    LEFT JOIN fetchwork.attribute AS a ON a.key = lower(e.key)
    WHERE coalesce(a.rule, 'plain') NOT IN ('ours', 'unhonoured')
        -- HTCondor's own submit writes policy into every ad; agents need not evaluate it if it has no effect
        -- (a.key is NULL for a plain attribute: IS NOT TRUE keeps it)
        AND (
            a.key IN (
                'onexithold', 'periodichold', 'periodicrelease', 'periodicremove', 'periodicvacate',
                'leavejobinqueue'
            )
            AND e.value = 'false'
        ) IS NOT TRUE
        AND (a.key = 'onexitremove' AND e.value = 'true') IS NOT TRUE
        AND (a.key = 'rank' AND e.value IN ('0', '0.0')) IS NOT TRUE
        -- nor its defaults about files
        AND (
            e.value = CASE
                WHEN a.key = 'shouldtransferfiles' THEN '"IF_NEEDED"'
                WHEN a.key = 'whentotransferoutput' THEN '"ON_EXIT"'
                WHEN a.key IN ('transferexecutable', 'transferin', 'transferout', 'transfererr') THEN 'true'
                WHEN a.key = 'preserverelativepaths' THEN 'false'
                WHEN a.key IN (
                    'transferinput', 'publicinputfiles', 'transferoutputremaps', 'transferplugins',
                    'outputdestination', 'oauthservicesneeded'
                ) THEN '""'
            END::jsonb
        ) IS NOT TRUE
        AND (a.key = 'owner' AND e.value IN ('null', '"/Expr(undefined)/"')) IS NOT TRUE;
    RETURN checked;
END
$$;
