-- Whether the session may act for an account, or with NULL for all: any session but that of an access point
-- that joined, which may for the accounts of its invitation.
CREATE OR REPLACE FUNCTION fetchwork.may_act_for(owner text)
RETURNS boolean
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN NOT fetchwork.is_joined_point()
    OR coalesce(
        CASE
            WHEN owner IS NULL THEN fetchwork.invited_owners() = '%'
            ELSE owner LIKE fetchwork.invited_owners()
        END, false
    );
