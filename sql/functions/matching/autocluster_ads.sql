-- The ads of autoclusters, for the agent's cache; they never change.
CREATE OR REPLACE FUNCTION fetchwork.autocluster_ads(ids integer [])
RETURNS TABLE (autocluster_id integer, submitter text, owner text, queue text, ad jsonb)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT a.autocluster_id, a.submitter, a.owner, a.queue, a.ad
    FROM fetchwork.autocluster AS a
    WHERE a.autocluster_id = ANY (autocluster_ads.ids) AND fetchwork.serves_queue(a.queue);
END;
