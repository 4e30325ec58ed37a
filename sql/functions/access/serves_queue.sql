-- Whether the session may see the demand of this queue, and claim its jobs: a joined host was invited for
-- some queues or for all. free: and without a count of its slots (free_slots).
CREATE OR REPLACE FUNCTION fetchwork.serves_queue(queue text, free boolean DEFAULT false)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN CASE
    WHEN fetchwork.is_joined_host() THEN fetchwork.is_invited_to(queue, free)
    ELSE true
END;
