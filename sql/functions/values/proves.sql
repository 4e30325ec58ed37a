-- Whether a caller's proof shows that it knows a run's token: the token itself, or the first half of its
-- SHA-256 as a uuid. Agents send the latter: then a log of statements, or of the parameters of a failed call,
-- contains nothing that a hook could use.
CREATE OR REPLACE FUNCTION fetchwork.proves(brought uuid, token uuid)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN coalesce(
    brought = token
    OR brought = encode(substring(sha256(convert_to(token::text, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid,
    false
);
