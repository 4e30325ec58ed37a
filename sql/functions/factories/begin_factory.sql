-- Makes the factory of a cluster that is being submitted, and its first jobs. plan is the attribute
-- FetchWorkFactory of the common ad: {"jobs": so many in all, "step": so many for each item, "template": the
-- part of the ad in which jobs differ, "marks": [the texts that stand in it for Process, Step, ItemIndex, and
-- for each variable of an item], "limit": max_materialize or null, "idle": max_idle or null}.
-- rows are the first items (add_items); a cluster without items has one row, {}. Returns the cluster, or that
-- of an earlier submission with this key.
-- Errors: FWINV, FWDEN as submit_cluster. Events: CLUSTER_SUBMIT (035), those of its first jobs.
CREATE OR REPLACE FUNCTION fetchwork.begin_factory(
    cluster integer,
    shared jsonb,
    plan jsonb,
    rows jsonb [],
    on_hold boolean,
    role name,
    key text
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    template text := nullif(plan -> 'template', '{}')::text;
    refused text;
    mark text;
    n integer;
    known integer;
BEGIN
    IF jsonb_typeof(plan) IS DISTINCT FROM 'object'
        OR jsonb_typeof(plan -> 'template') IS DISTINCT FROM 'object'
        OR jsonb_typeof(plan -> 'marks') IS DISTINCT FROM 'array'
        OR jsonb_array_length(plan -> 'marks') NOT BETWEEN 3 AND 100
        OR plan ->> 'jobs' !~ '^[1-9][0-9]{0,8}$' OR plan ->> 'step' !~ '^[1-9][0-9]{0,8}$'
        OR plan ->> 'limit' !~ '^[1-9][0-9]{0,8}$' OR plan ->> 'idle' !~ '^[0-9]{1,9}$'
        OR EXISTS (
            SELECT FROM jsonb_array_elements_text(plan -> 'marks') AS m (mark)
            -- with 40 letters at most the automaton is small
            WHERE m.mark !~ '^[A-Za-z][A-Za-z0-9_]{7,40}$'
        )
    THEN
        RAISE EXCEPTION 'the plan of a late cluster is wrong; allowed: 1 to 999999999 jobs, as a submit '
            'description says them' USING ERRCODE = 'FWINV';
    END IF;
    -- rights, places in the queue and states are those of the cluster
    SELECT t.key
    INTO refused
    FROM jsonb_object_keys(plan -> 'template') AS t (key)
    WHERE lower(t.key) LIKE 'fetchwork%'
        OR lower(t.key) IN (
            'owner', 'jobstatus', 'jobuniverse', 'accountinggroup', 'acctgroup', 'acctgroupuser',
            'jobbatchname', 'oauthservicesneeded', 'otherjobremoverequirements'
        )
    LIMIT 1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'attribute "%" differs in the jobs of a late cluster; allowed: the same for all of '
            'them, or a cluster without max_materialize and max_idle', refused USING ERRCODE = 'FWINV';
    END IF;
    template := replace(template, '%', '%%');
    FOR mark, n IN
        SELECT m.mark, m.n
        FROM jsonb_array_elements_text(plan -> 'marks') WITH ORDINALITY AS m (mark, n)
    LOOP
        template := replace(
            template, '"/Expr(' || mark || ')/"', format('%%%s$s', CASE WHEN n > 3 THEN 2 * n - 3 ELSE n END)
        );
        template := replace(template, mark, format('%%%s$s', CASE WHEN n > 3 THEN 2 * n - 4 ELSE n END));
    END LOOP;
    INSERT INTO fetchwork.factory (
        cluster_id, owner, jobs, step, template, variables, on_hold, submit_host, max_materialize, max_idle,
        part_bytes
    )
    VALUES (
        cluster, shared ->> 'Owner', (plan ->> 'jobs')::integer, (plan ->> 'step')::integer, template,
        jsonb_array_length(plan -> 'marks') - 3, on_hold, fetchwork.submission_info(shared) ->> 'SubmitHost',
        (plan ->> 'limit')::integer, (plan ->> 'idle')::integer, coalesce(2 * octet_length(template), 0)
    );
    UPDATE fetchwork.cluster AS c
    SET procs = (plan ->> 'jobs')::integer
    WHERE c.cluster_id = cluster;
    PERFORM fetchwork.add_items(cluster, begin_factory.rows);
    PERFORM fetchwork.checked_job(shared || (fetchwork.factory_parts(f, 1))[1], begin_factory.role)
    FROM fetchwork.factory AS f
    WHERE f.cluster_id = cluster;
    IF key IS NOT NULL THEN
        known := fetchwork.note_key(shared ->> 'Owner', key, cluster);
        IF known <> cluster THEN
            DELETE FROM fetchwork.factory AS f
            WHERE f.cluster_id = begin_factory.cluster;
            DELETE FROM fetchwork.cluster AS c
            WHERE c.cluster_id = begin_factory.cluster;
            RETURN known;
        END IF;
    END IF;
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)
    VALUES (35, cluster, -1, fetchwork.submission_info(shared));
    PERFORM fetchwork.materialize(cluster);
    SELECT f.reason
    INTO refused
    FROM fetchwork.factory AS f
    WHERE f.cluster_id = cluster AND f.paused = -1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = refused;
    END IF;
    RETURN cluster;
END
$$;
