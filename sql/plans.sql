-- The planner's settings of the functions on the way of jobs, runs and files. Their tables are empty at one
-- moment and long at the next, and a session keeps the plan that it made when they were empty: so
-- enable_seqscan is off. If a table of one row has no usable index, the penalty makes the plan look so dear,
-- before PostgreSQL 18, that JIT would compile it for 30 ms at each call; so JIT is off too.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'accept_runs', 'add_job_files', 'await_files', 'awaited_outputs', 'awaited_owners', 'begin_content',
        'begin_renewal', 'brought', 'changed_credentials', 'charge_job', 'check_ceilings', 'check_owner',
        'checkpoint_owners', 'claim', 'claim_alike', 'claim_limits', 'claim_many', 'claim_scheduler_job',
        'close_run', 'content_url', 'count_limits', 'credentials_to_seal', 'delete_contents',
        'dequeue_jobs', 'drop_files', 'drop_outputs', 'edit', 'end_content', 'end_demand', 'end_live_runs',
        'end_stays', 'enqueue', 'ensure_demand', 'file_run', 'finish_runs', 'give_up_bringing', 'hold_jobs',
        'job_outputs', 'job_rows', 'keep_outputs', 'lacking_contents', 'leave_queue', 'left_outputs',
        'limit_uses', 'limited_autoclusters', 'limits_on', 'live_run', 'move_jobs', 'named_jobs',
        'next_alike', 'next_runs', 'not_brought', 'note_credentials', 'note_transfer', 'output_url',
        'put_chunk', 'put_whole_contents', 'quotas_of', 'read_chunk', 'release_jobs', 'remove_jobs',
        'remove_others', 'renew_credential', 'renew_runs', 'run_credentials', 'run_files', 'selected_jobs',
        'sequence_events', 'slot_is_free', 'spend_starts', 'start_limits_of', 'start_runs', 'sweep_demand',
        'tend_scheduler_runs'
    ] LOOP
        EXECUTE format('ALTER FUNCTION fetchwork.%I SET enable_seqscan = off', name);
        EXECUTE format('ALTER FUNCTION fetchwork.%I SET jit = off', name);
    END LOOP;
    -- for the same reason these look each job or run up by its key, and never join all of them (job_of)
    FOREACH name IN ARRAY ARRAY[
        'accept_runs', 'add_job_files', 'awaited_outputs', 'claim_alike', 'delete_contents', 'dequeue_jobs',
        'drop_files', 'edit', 'end_live_runs', 'finish_runs', 'hold_jobs', 'job_outputs', 'leave_queue',
        'left_outputs', 'move_jobs', 'named_jobs', 'next_alike', 'release_jobs', 'remove_jobs',
        'remove_others', 'renew_runs', 'selected_jobs', 'spend_starts', 'start_runs', 'sweep_demand'
    ] LOOP
        EXECUTE format('ALTER FUNCTION fetchwork.%I SET enable_hashjoin = off', name);
        EXECUTE format('ALTER FUNCTION fetchwork.%I SET enable_mergejoin = off', name);
    END LOOP;
END
$$;
