-- Which role may do what. Nobody reads or writes a table; everything goes through functions and views.
--
-- fetchwork_submitter   puts jobs in as the Owners granted to it, sees and changes those
-- fetchwork_reader      sees everything but tokens
-- fetchwork_agent       what agents and hooks in direct mode do; sees everything, tokens too: an agent that comes back asks for its host's runs by the
--                       host's name (host_runs), and who has this role may give any. Agents whom one does not trust with each other's jobs draw from
--                       databases of their own
-- fetchwork_admin       all of that, limits, factors, grants

REVOKE ALL ON SCHEMA fetchwork FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA fetchwork FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fetchwork FROM PUBLIC;

GRANT USAGE ON SCHEMA fetchwork TO fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_admin;

GRANT SELECT ON
    fetchwork.jobs, fetchwork.history, fetchwork.runs, fetchwork.events, fetchwork.events_kept, fetchwork.slots, fetchwork.hosts,
    fetchwork.totals, fetchwork.batches, fetchwork.autoclusters, fetchwork.submitters, fetchwork.queues, fetchwork.limits, fetchwork.settings,
    fetchwork.migration, fetchwork.attribute, fetchwork.rests
TO fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_admin;

-- what the views and the checks call in the reader's name
GRANT EXECUTE ON FUNCTION
    fetchwork.invoker, fetchwork.sees_all, fetchwork.is_admin, fetchwork.own_owners, fetchwork.job_id, fetchwork.parse_job_id, fetchwork.shares, fetchwork.event_window,
    fetchwork.is_expression, fetchwork.attribute_of, fetchwork.integer_of, fetchwork.value_type, fetchwork.can_be_undefined, fetchwork.log_clusters, fetchwork.job_edge, fetchwork.history_edge, fetchwork.run_edge, fetchwork.is_log_of, fetchwork.waiting_autoclusters, fetchwork.prospects
TO fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_admin;

GRANT EXECUTE ON FUNCTION
    fetchwork.submit, fetchwork.submit_many, fetchwork.submit_cluster, fetchwork.reserve_cluster, fetchwork.hold, fetchwork.release, fetchwork.remove, fetchwork.vacate, fetchwork.edit
TO fetchwork_submitter, fetchwork_admin;

GRANT EXECUTE ON FUNCTION
    fetchwork.hello, fetchwork.beat, fetchwork.goodbye, fetchwork.report_slots, fetchwork.candidates, fetchwork.autocluster_ads, fetchwork.claim,
    fetchwork.accept, fetchwork.reject, fetchwork.start, fetchwork.refuse_start, fetchwork.withdraw, fetchwork.heartbeat, fetchwork.run_policy,
    fetchwork.finish, fetchwork.slot_is_free, fetchwork.starter_gone, fetchwork.host_runs, fetchwork.policy_jobs, fetchwork.apply_policy,
    fetchwork.note_significant, fetchwork.take_leader_task
TO fetchwork_agent, fetchwork_admin;

GRANT EXECUTE ON FUNCTION
    fetchwork.maintain_queue, fetchwork.reap, fetchwork.wake, fetchwork.fold, fetchwork.preempt, fetchwork.maintain_tables
TO fetchwork_agent, fetchwork_admin;

GRANT EXECUTE ON FUNCTION
    fetchwork.grant_owner, fetchwork.revoke_owner, fetchwork.set_queue, fetchwork.set_submitter, fetchwork.set_limit, fetchwork.set_setting, fetchwork.clear_host, fetchwork.after_restore
TO fetchwork_admin;
