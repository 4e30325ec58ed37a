-- Makes an accounting group with a quota, or changes one: quota (weighted slots) or dynamic_quota (0 to 1, of
-- what quotas leave of the parent's), accept_surplus, max_idle and max_autoclusters (check_ceilings; null or
-- 0: no ceiling), autoregroup, prio_factor, managers (roles that may set the groups below it). A new group
-- needs one of the quotas; the others are false, and none. The name of a group below another begins with its
-- name and a dot. A manager of a group above sets quotas, accept_surplus and ceilings. Errors: FWDEN, FWINV,
-- FWNOT (the group above, or a role of managers).
CREATE OR REPLACE FUNCTION fetchwork.set_group(name text, changes jsonb DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
    above text := substring(set_group.name FROM '^(.*)\.');
    its_parent text;
    its_name text;
BEGIN
    PERFORM fetchwork.require_manager(set_group.name);
    SELECT k.key
    INTO unknown
    FROM jsonb_object_keys(changes) AS k (key)
    WHERE k.key NOT IN ('quota', 'dynamic_quota', 'accept_surplus', 'max_idle', 'max_autoclusters')
        AND (
            k.key NOT IN ('autoregroup', 'prio_factor', 'managers')
            OR NOT fetchwork.is_admin(fetchwork.invoker())
        )
    LIMIT 1;
    IF unknown IN ('autoregroup', 'prio_factor', 'managers') THEN
        RAISE EXCEPTION 'only an administrator sets % of a group', unknown USING ERRCODE = 'FWDEN';
    ELSIF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'group % has no setting %; allowed: quota, dynamic_quota, accept_surplus, max_idle, '
            'max_autoclusters, autoregroup, prio_factor, managers',
            quote_nullable(set_group.name), quote_nullable(unknown) USING ERRCODE = 'FWINV';
    END IF;
    IF coalesce(length(set_group.name), 0) NOT BETWEEN 1 AND 200
        OR set_group.name !~ '^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*){0,9}$'
    THEN
        RAISE EXCEPTION '% is not the name of a group; allowed: letters, digits, _ and -, with dots between '
            'at most 10 such names',
            quote_nullable(set_group.name) USING ERRCODE = 'FWINV';
    END IF;
    IF num_nonnulls(changes ->> 'quota', changes ->> 'dynamic_quota') = 2
        OR (changes ->> 'quota')::double precision NOT BETWEEN 0 AND 1e9
        OR (changes ->> 'dynamic_quota')::double precision NOT BETWEEN 0 AND 1
        OR (changes ->> 'prio_factor')::double precision NOT BETWEEN 1 AND 1e12
        OR (changes ->> 'max_idle')::integer < 0
        OR (changes ->> 'max_autoclusters')::integer < 0
    THEN
        RAISE EXCEPTION 'group %: %; allowed: a quota from 0 or a dynamic_quota from 0 to 1, a prio_factor '
            'from 1, ceilings from 0',
            quote_nullable(set_group.name), changes USING ERRCODE = 'FWINV';
    END IF;
    IF changes ? 'managers' THEN
        PERFORM fetchwork.require_role(m.role::name)
        FROM jsonb_array_elements_text(changes -> 'managers') AS m (role);
    END IF;
    IF above IS NOT NULL THEN
        SELECT g.name
        INTO its_parent
        FROM fetchwork.accounting_group AS g
        WHERE lower(g.name) = lower(above);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'group % does not exist; make it before %', quote_literal(above),
                quote_literal(set_group.name) USING ERRCODE = 'FWNOT';
        END IF;
    END IF;
    SELECT g.name
    INTO its_name
    FROM fetchwork.accounting_group AS g
    WHERE lower(g.name) = lower(set_group.name);
    IF NOT FOUND THEN
        IF num_nonnulls(changes ->> 'quota', changes ->> 'dynamic_quota') <> 1 THEN
            RAISE EXCEPTION 'group % is new, so it needs a quota or a dynamic_quota',
                quote_literal(set_group.name) USING ERRCODE = 'FWINV';
        END IF;
        its_name := set_group.name;
        INSERT INTO fetchwork.accounting_group (name, parent, quota)
        VALUES (its_name, its_parent, 0);
    END IF;
    UPDATE fetchwork.accounting_group AS g
    SET quota = CASE
            WHEN num_nonnulls(changes ->> 'quota', changes ->> 'dynamic_quota') = 0 THEN g.quota
            ELSE (changes ->> 'quota')::double precision
        END,
        dynamic_quota = CASE
            WHEN num_nonnulls(changes ->> 'quota', changes ->> 'dynamic_quota') = 0 THEN g.dynamic_quota
            ELSE (changes ->> 'dynamic_quota')::double precision
        END,
        accept_surplus = coalesce((changes ->> 'accept_surplus')::boolean, g.accept_surplus),
        autoregroup = coalesce((changes ->> 'autoregroup')::boolean, g.autoregroup),
        prio_factor = CASE
            WHEN changes ? 'prio_factor' THEN (changes ->> 'prio_factor')::double precision
            ELSE g.prio_factor
        END,
        managers = CASE
            WHEN changes ? 'managers' THEN ARRAY(SELECT jsonb_array_elements_text(changes -> 'managers'))
            ELSE g.managers
        END,
        max_idle = CASE
            WHEN changes ? 'max_idle' THEN (changes ->> 'max_idle')::integer
            ELSE g.max_idle
        END,
        max_autoclusters = CASE
            WHEN changes ? 'max_autoclusters' THEN (changes ->> 'max_autoclusters')::integer
            ELSE g.max_autoclusters
        END
    WHERE g.name = its_name;
    PERFORM fetchwork.note_action('set_group', NULL, NULL, its_name, changes::text);
    PERFORM fetchwork.notify_agents();
END
$$;
