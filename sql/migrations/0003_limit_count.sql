-- Counts of what live runs take of each limit, for claims (functions/matching/count_limits.sql).

CREATE TABLE fetchwork.limit_count (
    scope text NOT NULL,                        -- as limit_uses returns them
    name text NOT NULL,
    used double precision NOT NULL,             -- by all live runs up to last_run, when they were counted
    last_run bigint NOT NULL,
    counted_at timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
);

COMMENT ON TABLE fetchwork.limit_count IS
    'use of the limits on running jobs, counted at most once a second: claims add the runs made since';

-- Few rows, rewritten all the time.
ALTER TABLE fetchwork.limit_count SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);

-- Functions that others replace, or that return other columns than before. CASCADE drops the functions whose
-- bodies call has_quota, too; the same upgrade makes them again.
DROP FUNCTION IF EXISTS fetchwork.claim(
    integer, text, integer [], integer [], bigint [], boolean [], real, double precision, double precision,
    boolean, double precision []
);
DROP FUNCTION IF EXISTS fetchwork.spend_start(integer, timestamptz);
DROP FUNCTION IF EXISTS fetchwork.start_limits_of(integer);
DROP FUNCTION IF EXISTS fetchwork.read_groups(integer, boolean);
DROP FUNCTION IF EXISTS fetchwork.has_quota(text) CASCADE;

INSERT INTO fetchwork.migration (version, name)
VALUES (3, 'limit_count');
