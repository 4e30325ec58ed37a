-- The numbers of idle jobs over the last week, by owner and queue: each five minutes, and each quarter of an
-- hour over two hours ago. A time without a row had no idle job, or maintain_queue was not called then.
CREATE OR REPLACE VIEW fetchwork.idle_counts WITH (security_barrier) AS
SELECT k.at AS counted_at, k.owner, k.queue AS fetchworkqueue, k.idle
FROM fetchwork.idle_count AS k
WHERE k.at > now() - interval '7 days'
    AND (
        (SELECT fetchwork.sees_all(current_user))
        OR k.owner = ANY ((SELECT fetchwork.own_owners(current_user))::text [])
    );
