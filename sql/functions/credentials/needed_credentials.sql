-- The names of the credentials that a job requests (OAuthServicesNeeded: services separated by commas,
-- SERVICE*HANDLE with a handle), as in their files' names: "_" instead of "*", as in HTCondor (cred_dir.cpp).
CREATE OR REPLACE FUNCTION fetchwork.needed_credentials(ad jsonb)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(array_agg(DISTINCT replace(w.word, '*', '_')), '{}')
    FROM regexp_split_to_table(needed_credentials.ad ->> 'OAuthServicesNeeded', '[\s,]+') AS w (word)
    WHERE w.word <> '';
END;
