-- Ceilings of accounting groups (check_ceilings), and limits on starts of a group's jobs (set_starts).

ALTER TABLE fetchwork.accounting_group
    -- ceilings, of all submitters in it and in the groups below it; null or 0: no ceiling
    ADD COLUMN max_idle integer CONSTRAINT accounting_group_max_idle_is_positive CHECK (max_idle >= 0),
    ADD COLUMN max_autoclusters integer CONSTRAINT accounting_group_max_autoclusters_is_positive CHECK (
        max_autoclusters >= 0
    );

CREATE INDEX accounting_group_ceilings ON fetchwork.accounting_group (name)
WHERE max_idle > 0 OR max_autoclusters > 0;

-- The submitters of a group and of those below it are a range: all that begin with its name and a dot.
CREATE INDEX autocluster_group ON fetchwork.autocluster (lower(submitter) COLLATE "C");

-- "name" may be that of an accounting group, in lower case
ALTER TABLE fetchwork.start_limit
    DROP CONSTRAINT start_limit_scope_is_known,
    ADD CONSTRAINT start_limit_scope_is_known CHECK (scope IN ('limit', 'queue', 'owner', 'group'));

INSERT INTO fetchwork.migration (version, name)
VALUES (2, 'limits_of_groups');
