-- Notes an action of the caller, in its transaction, for the view "actions": one row for each call and Owner
-- of jobs, however many jobs there are. Called by every function with which people change jobs or settings; a
-- submission is noted by its cluster's row. subject: the first jobs, or the name of a queue, limit, submitter
-- or setting. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.note_action(
    action text,
    owner text,
    jobs integer,
    subject text,
    details text
)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO fetchwork.action (action, role, person, program, owner, jobs, subject, details)
    VALUES (
        note_action.action, fetchwork.invoker(), fetchwork.acting_for(fetchwork.invoker()),
        nullif(current_setting('application_name'), ''), note_action.owner, note_action.jobs,
        note_action.subject, left(note_action.details, 1000)
    );
END;
