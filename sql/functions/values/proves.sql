-- Does what a caller brought show that it knows a run's token? The token itself does, and so does its
-- SHA-256, the first half as a uuid. Agents bring that: a log of statements, or of the parameters of a call
-- that failed, then holds nothing that a hook would be believed with.
CREATE OR REPLACE FUNCTION fetchwork.proves(brought uuid, token uuid)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN coalesce(
    brought = token
    OR brought = encode(substring(sha256(convert_to(token::text, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid,
    false
);
