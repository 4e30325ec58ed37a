-- The accounting groups with quotas, in weighted slots: a quota or a part of the parent's, what that is now,
-- and how much is in use and asked for, in the group's whole subtree and by its own submitters. Ceilings are
-- those that are set.
CREATE OR REPLACE VIEW fetchwork.groups AS
SELECT
    f.name,
    CASE WHEN f.name <> '<none>' THEN coalesce(g.parent, '<none>') END AS parent,
    g.quota AS configquota,
    g.dynamic_quota AS dynamicquota,
    coalesce(g.accept_surplus, true) AS acceptsurplus,
    coalesce(g.autoregroup, false) AS autoregroup,
    g.prio_factor AS priorityfactor,
    g.managers,
    f.subtree_quota AS subtreequota,
    f.quota AS effectivequota,
    f.in_use AS weightedinuse,
    f.subtree_in_use AS subtreeinuse,
    f.requested,
    g.max_idle AS maxidle,
    g.max_autoclusters AS maxautoclusters
FROM fetchwork.group_figures() AS f
LEFT JOIN fetchwork.accounting_group AS g ON g.name = f.name;
