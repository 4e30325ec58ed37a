-- The owners of jobs in the queue or in history, for a reader that compares Owner with a name in another
-- case, which an index of history can't find. Some may have no job left in history.
CREATE OR REPLACE VIEW fetchwork.owners WITH (security_barrier) AS
SELECT o.owner
FROM (
    SELECT a.owner
    FROM fetchwork.autocluster AS a
    UNION
    SELECT p.name
    FROM fetchwork.past_owner AS p
) AS o
WHERE (SELECT fetchwork.sees_all(current_user))
    OR o.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text []);
