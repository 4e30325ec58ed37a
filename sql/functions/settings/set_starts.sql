-- Limits the starts of jobs: at most so many in any time of so many seconds. scope tells what name names: a
-- concurrency limit of jobs ('limit'), a queue ('queue'), an owner ('owner') or an accounting group, with a
-- quota or without, whose limit counts the jobs of the groups below it too ('group'). NULL starts removes the
-- limit. A limit counts starts from when it is set; a changed one goes on with the starts that count already.
-- Only administrators set them, also those of groups: until the transaction ends, no claim under any limit
-- goes on. Errors: FWDEN, FWINV.
-- Locks: the row of limits (lock_limits), so that no claim counts meanwhile.
CREATE OR REPLACE FUNCTION fetchwork.set_starts(
    scope text,
    name text,
    starts integer,
    seconds double precision DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its_name text := CASE
        WHEN scope IN ('limit', 'group') THEN lower(set_starts.name)
        ELSE set_starts.name
    END;
BEGIN
    PERFORM fetchwork.require_admin();
    IF coalesce(scope NOT IN ('limit', 'queue', 'owner', 'group'), true) THEN
        RAISE EXCEPTION 'starts of a % have no limit; allowed: limit, queue, owner, group',
            quote_nullable(set_starts.scope) USING ERRCODE = 'FWINV';
    END IF;
    IF scope = 'limit' AND coalesce(its_name !~ '^[a-z0-9_.]+$', true) THEN
        RAISE EXCEPTION '% is not the name of a concurrency limit; allowed: letters, digits, _ .',
            quote_nullable(set_starts.name) USING ERRCODE = 'FWINV';
    END IF;
    IF coalesce(length(its_name) NOT BETWEEN 1 AND 256, true) THEN
        RAISE EXCEPTION '% is not the name of any %', quote_nullable(set_starts.name), scope
            USING ERRCODE = 'FWINV';
    END IF;
    IF scope = 'queue' AND starts IS NOT NULL AND NOT EXISTS (
        SELECT FROM fetchwork.queue AS q
        WHERE q.name = its_name
    ) THEN
        RAISE EXCEPTION 'queue % does not exist', quote_literal(its_name) USING ERRCODE = 'FWINV';
    END IF;
    IF starts NOT BETWEEN 1 AND 1000000
        OR (starts IS NOT NULL AND coalesce(NOT (seconds > 0 AND seconds <= 2678400), true))
    THEN
        RAISE EXCEPTION 'a limit of % starts in % s; allowed: 1 to 1000000 starts, in a month at most',
            starts, coalesce(seconds::text, 'null') USING ERRCODE = 'FWINV';
    END IF;
    PERFORM FROM fetchwork.turn AS t
    WHERE t.name = 'limits'
    FOR NO KEY UPDATE;
    IF starts IS NULL THEN
        DELETE FROM fetchwork.start_limit AS l
        WHERE l.scope = set_starts.scope AND l.name = its_name;
    ELSE
        INSERT INTO fetchwork.start_limit AS l (scope, name, starts, seconds)
        VALUES (set_starts.scope, its_name, set_starts.starts, set_starts.seconds)
        ON CONFLICT ON CONSTRAINT start_limit_pkey
        DO UPDATE SET starts = excluded.starts, seconds = excluded.seconds;
        -- a claim deletes only the token that is just too old
        DELETE FROM fetchwork.start_token AS t
        WHERE t.scope = set_starts.scope AND t.name = its_name AND t.number <= (
            SELECT max(k.number) - set_starts.starts
            FROM fetchwork.start_token AS k
            WHERE k.scope = set_starts.scope AND k.name = its_name
        );
    END IF;
    PERFORM fetchwork.note_action(
        'set_starts', NULL, NULL, format('%s %s', scope, its_name),
        CASE WHEN starts IS NOT NULL THEN format('%s/%ss', starts, seconds) END
    );
    PERFORM fetchwork.notify_agents();
END
$$;
