-- Whether a caller's proof shows that it knows a run's token: the token itself, or the first half of its
-- SHA-256 as a uuid. Agents send the latter: then a log of statements, or of the parameters of a failed call,
-- contains nothing that a hook could use. The run has to be one of the caller's host, too, if the session is
-- that of one host (is_own_host): a token that was stolen elsewhere is worth nothing to it.
CREATE OR REPLACE FUNCTION fetchwork.proves(brought uuid, token uuid, host_id integer)
RETURNS boolean
LANGUAGE sql
STABLE
RETURN coalesce(
    brought = token
    OR brought = encode(substring(sha256(convert_to(token::text, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid,
    false
) AND fetchwork.is_own_host(host_id);
