-- The actions of people on jobs and settings, submissions too, with the database role, and the account that
-- it acted for. A reader sees actions on jobs of its own Owners; readers that see all jobs see all actions.
CREATE OR REPLACE VIEW fetchwork.actions WITH (security_barrier) AS
SELECT u.*
FROM (
    SELECT
        a.action_id AS actionid, a.at AS action_at, a.action, a.role, a.person, a.program, a.owner, a.jobs,
        a.subject, a.details, NULL::integer AS clusterid
    FROM fetchwork.action AS a
    UNION ALL
    SELECT
        NULL, c.submitted_at, 'submit', c.submitted_by, NULL, NULL, c.ad ->> 'Owner', c.procs,
        c.cluster_id::text, NULL, c.cluster_id
    FROM fetchwork.cluster AS c
) AS u
WHERE (SELECT fetchwork.sees_all(current_user))
    OR u.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
