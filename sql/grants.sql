-- The rights of each role. No role reads or writes a table; all access goes through functions and views.
--
-- fetchwork_submitter     submits jobs as the Owners granted to it, sees and changes those
-- fetchwork_reader        sees everything but tokens
-- fetchwork_agent         does the work of agents; sees everything, tokens too: an agent that comes back asks
--                         for its host's runs (host_runs), and a member of this role may give any name.
--                         Agents that must not see each other's jobs need databases of their own
-- fetchwork_host          does the same for one host, its own: a role for each host, made when it joined by
--                         an invitation (functions/identities/join_host.sql); sees no view, and no job that
--                         it was not given, but the demand of the queues that it was invited for
-- fetchwork_invited       joins: a role for each invitation
-- fetchwork_access_point  sees everything but tokens; may have the rights of any one account but root for a
--                         transaction (act_for): it knows its callers by itself
-- fetchwork_joined_point  the same for accounts of an invitation: a role for each access point that joined
-- fetchwork_admin         all of that, limits, factors, grants
--
--                                          submitter   reader   agent   access point   admin
--     views                                    x          x       x          x           x
--     functions that views and readers call    x          x       x          x           x
--     functions of people                      x                             x           x
--     functions of agents                                         x                      x
--     functions of access points                                             x
--     functions of administrators                                                        x
--
-- Functions in no list are called only by other functions.

REVOKE ALL ON SCHEMA fetchwork FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA fetchwork FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fetchwork FROM PUBLIC;

GRANT USAGE ON SCHEMA fetchwork TO
    fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_access_point, fetchwork_admin,
    fetchwork_host, fetchwork_invited;

-- Views, and two tables without data of users: the schema's version and the rules for attributes.
GRANT SELECT ON
    fetchwork.jobs,
    fetchwork.factories,
    fetchwork.clusters,
    fetchwork.history,
    fetchwork.runs,
    fetchwork.run_counts,
    fetchwork.idle_counts,
    fetchwork.host_counts,
    fetchwork.events,
    fetchwork.events_kept,
    fetchwork.slots,
    fetchwork.rests,
    fetchwork.checkpoints,
    fetchwork.credentials,
    fetchwork.hosts,
    fetchwork.unsettled,
    fetchwork.totals,
    fetchwork.demand_now,
    fetchwork.batches,
    fetchwork.autoclusters,
    fetchwork.owners,
    fetchwork.submitters,
    fetchwork.queues,
    fetchwork.limits,
    fetchwork.groups,
    fetchwork.accounting,
    fetchwork.settings,
    fetchwork.actions,
    fetchwork.migration,
    fetchwork.attribute
TO fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_access_point, fetchwork_admin;

-- Functions that the views call with the rights of the reader, and functions for readers of the views.
GRANT EXECUTE ON FUNCTION
    -- the caller
    fetchwork.invoker,
    fetchwork.sees_all,
    fetchwork.is_admin,
    fetchwork.own_owners,
    fetchwork.acting_for,
    fetchwork.is_joined_point,
    fetchwork.invited_owners,
    fetchwork.may_act_for,
    fetchwork.asker,
    -- values in views and in constraints
    fetchwork.job_id,
    fetchwork.parse_job_id,
    fetchwork.integer_of,
    fetchwork.memory_use,
    fetchwork.dag_counts,
    fetchwork.vacate_s,
    fetchwork.charged_s,
    fetchwork.default_attributes,
    fetchwork.is_expression,
    fetchwork.attribute_of,
    fetchwork.can_be_undefined,
    -- the key for sealing credentials
    fetchwork.sealing_key,
    -- reading
    fetchwork.shares,
    fetchwork.group_figures,
    fetchwork.event_window,
    fetchwork.may_sequence_events,
    fetchwork.log_clusters,
    fetchwork.dag_clusters,
    fetchwork.scheduler_clusters,
    fetchwork.is_log_of,
    fetchwork.named_jobs,
    fetchwork.job_edge,
    fetchwork.history_edge,
    fetchwork.run_edge,
    fetchwork.waiting_autoclusters,
    fetchwork.prospects,
    fetchwork.first_idle,
    fetchwork.recent_failures,
    fetchwork.policies_rest,
    fetchwork.host_ends,
    fetchwork.batch_ends,
    fetchwork.watch_output,
    fetchwork.sends_notifications
TO fetchwork_submitter, fetchwork_reader, fetchwork_agent, fetchwork_access_point, fetchwork_admin;

-- Functions of people; each checks which Owners the caller may name.
GRANT EXECUTE ON FUNCTION
    fetchwork.submit,
    fetchwork.submit_many,
    fetchwork.submit_cluster,
    fetchwork.submit_ads,
    fetchwork.reserve_cluster,
    fetchwork.note_submission,
    fetchwork.submitted_as,
    fetchwork.begin_submission,
    fetchwork.set_group,
    fetchwork.remove_group,
    fetchwork.submit_noted,
    fetchwork.lacking_contents,
    fetchwork.end_content,
    fetchwork.add_job_files,
    fetchwork.add_job_key,
    fetchwork.job_outputs,
    fetchwork.output_clusters,
    fetchwork.awaited_owners,
    fetchwork.awaited_outputs,
    fetchwork.drop_outputs,
    fetchwork.left_checkpoints,
    fetchwork.checkpoint_owners,
    fetchwork.forget_checkpoint,
    fetchwork.not_brought,
    fetchwork.put_credential,
    fetchwork.delete_credential,
    fetchwork.hold(text [], text, text, integer, integer, boolean),
    fetchwork.hold(text, text),
    fetchwork.release(text [], text, text, boolean),
    fetchwork.release(text, text),
    fetchwork.remove(text [], text, text, boolean),
    fetchwork.remove(text, text),
    fetchwork.remove_now,
    fetchwork.vacate(text [], text, text, boolean),
    fetchwork.vacate(text, text),
    fetchwork.suspend(text [], text, text, boolean),
    fetchwork.suspend(text, text),
    fetchwork.continue(text [], text, text, boolean),
    fetchwork.continue(text, text),
    fetchwork.edit,
    fetchwork.notify_agents
TO fetchwork_submitter, fetchwork_access_point, fetchwork_admin;

-- Functions of people about tokens: none for an access point, as a stolen one could make lasting tokens.
GRANT EXECUTE ON FUNCTION
    fetchwork.create_token,
    fetchwork.revoke_token,
    fetchwork.tokens
TO fetchwork_submitter, fetchwork_admin;

-- Functions of agents; a run is identified by its id and its token. A joined host acts for itself alone:
-- functions/access/require_host.sql, functions/values/proves.sql.
GRANT EXECUTE ON FUNCTION
    -- the host
    fetchwork.hello,
    fetchwork.beat,
    fetchwork.goodbye,
    fetchwork.report_slots,
    fetchwork.host_runs,
    -- a fetch
    fetchwork.candidates,
    fetchwork.read_demand,
    fetchwork.read_groups,
    fetchwork.autocluster_ads,
    fetchwork.report_faults,
    fetchwork.slot_is_free,
    fetchwork.run_owner,
    fetchwork.claim_many,
    fetchwork.withdraw,
    fetchwork.note_match,
    fetchwork.accept,
    fetchwork.reject,
    -- a run
    fetchwork.start,
    fetchwork.refuse_start,
    fetchwork.fail_inputs,
    fetchwork.start_failed,
    fetchwork.heartbeat,
    fetchwork.report_runs,
    fetchwork.next_runs,
    fetchwork.run_policy,
    fetchwork.finish,
    fetchwork.starter_gone,
    -- its files
    fetchwork.run_files,
    fetchwork.output_url,
    fetchwork.keep_outputs,
    fetchwork.leave_outputs,
    fetchwork.note_transfer,
    fetchwork.watched_output,
    fetchwork.ship_output,
    -- its credentials
    fetchwork.run_credentials,
    fetchwork.note_credentials,
    fetchwork.changed_credentials,
    fetchwork.begin_renewal,
    fetchwork.renew_credential,
    -- copies for joined hosts, made by those with the pool's private key
    fetchwork.credentials_to_seal,
    fetchwork.put_host_credential,
    -- work of one agent for all
    fetchwork.take_leader_task,
    fetchwork.policy_jobs,
    fetchwork.apply_policy,
    fetchwork.retry_with_more,
    fetchwork.maintain_queue,
    fetchwork.sequence_events,
    fetchwork.lead,
    fetchwork.end_notification_reader,
    fetchwork.reap,
    fetchwork.wake,
    fetchwork.fold,
    fetchwork.preempt,
    fetchwork.maintain_tables,
    fetchwork.objects_over,
    fetchwork.objects_deleted,
    fetchwork.postpone_objects,
    fetchwork.bucket_probes
TO fetchwork_agent, fetchwork_host, fetchwork_admin;

-- Functions about contents, those of submitters and those of runs: writable_content, readable_content and
-- content_owner decide which.
GRANT EXECUTE ON FUNCTION
    fetchwork.put_whole_contents,
    fetchwork.begin_content,
    fetchwork.put_chunk,
    fetchwork.read_chunk,
    fetchwork.content_url
TO fetchwork_submitter, fetchwork_access_point, fetchwork_agent, fetchwork_host, fetchwork_admin;

-- The rights of a joined host beside the functions of agents, and of an invited one: views show other hosts.
GRANT SELECT ON
    fetchwork.migration,
    fetchwork.attribute
TO fetchwork_host;

GRANT EXECUTE ON FUNCTION
    fetchwork.renew_identity,
    fetchwork.own_host_state,
    fetchwork.sealing_key,
    fetchwork.register_host_key,
    fetchwork.want_credentials,
    fetchwork.shares,
    fetchwork.group_figures,
    fetchwork.sends_notifications
TO fetchwork_host;

GRANT EXECUTE ON FUNCTION
    fetchwork.join_host
TO fetchwork_invited;

-- Functions of an access point, for the account that calls it.
GRANT EXECUTE ON FUNCTION
    fetchwork.act_for,
    fetchwork.act_by_token,
    fetchwork.renew_identity,
    fetchwork.sequence_events,
    -- leader tasks that show the jobs of all
    fetchwork.take_leader_task,
    fetchwork.policy_jobs,
    fetchwork.apply_policy,
    fetchwork.objects_over,
    fetchwork.objects_deleted,
    fetchwork.postpone_objects
TO fetchwork_access_point;

-- Functions of an access point for the scheduler-universe jobs that it runs, those of its own account or of
-- all; the last five identify a run by its id and its token.
GRANT EXECUTE ON FUNCTION
    fetchwork.claim_scheduler_job,
    fetchwork.tend_scheduler_runs,
    fetchwork.run_policy,
    fetchwork.start,
    fetchwork.refuse_start,
    fetchwork.heartbeat,
    fetchwork.finish
TO fetchwork_submitter, fetchwork_access_point, fetchwork_admin;

-- Functions of administrators; each checks the caller again.
GRANT EXECUTE ON FUNCTION
    fetchwork.grant_owner,
    fetchwork.revoke_owner,
    fetchwork.grant_group,
    fetchwork.revoke_group,
    fetchwork.set_queue,
    fetchwork.set_submitter,
    fetchwork.set_limit,
    fetchwork.set_starts,
    fetchwork.set_setting,
    fetchwork.set_bucket,
    fetchwork.buckets,
    fetchwork.clear_host,
    fetchwork.invite_host,
    fetchwork.invitations,
    fetchwork.uninvite,
    fetchwork.identities,
    fetchwork.revoke_host,
    fetchwork.admit_host,
    fetchwork.forget_host,
    fetchwork.require_join,
    fetchwork.after_restore,
    fetchwork.resume_offers,
    fetchwork.publish_credential_key,
    fetchwork.sealed_otherwise,
    fetchwork.reseal_credential
TO fetchwork_admin;
