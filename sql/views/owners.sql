-- Whose jobs there are, in the queue or in history: for each who compares Owner with a name in another case,
-- which no index of history finds. There may be more of them than history has jobs of.
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
