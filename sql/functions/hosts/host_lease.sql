-- The time for which an agent may be silent before its host's runs are lost: its own wish, or the setting.
CREATE OR REPLACE FUNCTION fetchwork.host_lease(host fetchwork.host)
RETURNS interval
LANGUAGE sql
STABLE
RETURN coalesce((host).lease, fetchwork.setting_time('host_lease'));
