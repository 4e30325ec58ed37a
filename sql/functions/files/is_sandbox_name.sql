-- Whether a file of a sandbox may have this name: not empty, not absolute, no part that is empty, "." or
-- "..", at most 4096 bytes (PATH_MAX), no part longer than a file system takes; a directory's name ends with
-- "/". Stricter than HTCondor's LegalPathInSandbox: names come from hosts and submitters, and go to both.
CREATE OR REPLACE FUNCTION fetchwork.is_sandbox_name(name text)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
RETURN coalesce(
    name <> ''
    AND octet_length(name) <= 4096
    AND NOT EXISTS (
        SELECT FROM string_to_table(rtrim(name, '/'), '/') AS p (part)
        WHERE p.part IN ('', '.', '..') OR octet_length(p.part) > 255
    )
    AND name !~ '//$',
    false
);
