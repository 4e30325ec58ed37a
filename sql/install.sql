-- The whole schema, in order. `fetchwork db init` and `fetchwork db upgrade` read this list; a DBA may run it
-- on an empty database:
--     psql -1 -v ON_ERROR_STOP=1 -f sql/install.sql
-- For an upgrade by hand: apply the migrations that fetchwork.migration does not list, then everything below
-- them again.

-- migrations: types, tables, constraints, indexes, and the rows that come with them. Each is applied once.
\ir migrations/0001_base.sql
\ir migrations/0002_limits_of_groups.sql
\ir migrations/0003_limit_count.sql

-- views: the one that functions read.
\ir views/known_job.sql

-- functions/access: Who is asking, whose jobs that role sees and changes, and who administers.
\ir functions/access/invoker.sql
\ir functions/access/is_joined_point.sql
\ir functions/access/invited_owners.sql
\ir functions/access/may_act_for.sql
\ir functions/access/acting_for.sql
\ir functions/access/asker.sql
\ir functions/access/sees_all.sql
\ir functions/access/serves_all.sql
\ir functions/access/is_admin.sql
\ir functions/access/own_owners.sql
\ir functions/access/act_for.sql
\ir functions/access/require_admin.sql
\ir functions/access/require_manager.sql
\ir functions/access/require_role.sql
\ir functions/access/require_owner.sql
\ir functions/access/grant_owner.sql
\ir functions/access/revoke_owner.sql
\ir functions/access/own_groups.sql
\ir functions/access/grant_group.sql
\ir functions/access/revoke_group.sql
\ir functions/access/may_charge.sql
\ir functions/access/note_action.sql
\ir functions/access/is_joined_host.sql
\ir functions/access/own_host.sql
\ir functions/access/must_join.sql
\ir functions/access/is_own_host.sql
\ir functions/access/require_host.sql
\ir functions/access/is_trusted_host.sql
\ir functions/access/may_see_all.sql
\ir functions/access/require_trusted_host.sql
\ir functions/access/is_invited_to.sql
\ir functions/access/serves_queue.sql
\ir functions/access/free_slots.sql

-- functions/identities: Invitations, by which hosts join, and the login role that each gets.
\ir functions/identities/require_verifier.sql
\ir functions/identities/make_login.sql
\ir functions/identities/end_login.sql
\ir functions/identities/invite_host.sql
\ir functions/identities/invitations.sql
\ir functions/identities/uninvite.sql
\ir functions/identities/identities.sql
\ir functions/identities/join_host.sql
\ir functions/identities/renew_identity.sql
\ir functions/identities/revoke_host.sql
\ir functions/identities/admit_host.sql
\ir functions/identities/own_host_state.sql
\ir functions/identities/forget_host.sql
\ir functions/identities/require_join.sql
\ir functions/identities/forget_identities.sql

-- functions/tokens: with which people sign in at the page and the API
\ir functions/tokens/require_token_maker.sql
\ir functions/tokens/create_token.sql
\ir functions/tokens/revoke_token.sql
\ir functions/tokens/tokens.sql
\ir functions/tokens/act_by_token.sql

-- functions/settings: The numbers of an administrator: settings, queues, submitters, concurrency limits.
\ir functions/settings/setting_value.sql
\ir functions/settings/setting_time.sql
\ir functions/settings/set_queue.sql
\ir functions/settings/set_submitter.sql
\ir functions/settings/set_limit.sql
\ir functions/settings/set_starts.sql
\ir functions/settings/set_group.sql
\ir functions/settings/remove_group.sql
\ir functions/settings/set_setting.sql
\ir functions/settings/set_bucket.sql
\ir functions/settings/buckets.sql

-- functions/notifications: What agents are told at once, and room in PostgreSQL's queue for it.
\ir functions/notifications/sends_notifications.sql
\ir functions/notifications/notify_agents.sql
\ir functions/notifications/end_notification_reader.sql

-- functions/values: Ids, and attribute values as SQL can read them: literals, expressions, numbers.
\ir functions/values/job_id.sql
\ir functions/values/global_job_id.sql
\ir functions/values/parse_job_id.sql
\ir functions/values/is_expression.sql
\ir functions/values/shown_value.sql
\ir functions/values/attribute_of.sql
\ir functions/values/can_be_undefined.sql
\ir functions/values/expression_names.sql
\ir functions/values/literal_number.sql
\ir functions/values/number_of.sql
\ir functions/values/integer_of.sql
\ir functions/values/memory_use.sql
\ir functions/values/dag_counts.sql
\ir functions/values/vacate_s.sql
\ir functions/values/charged_s.sql
\ir functions/values/proves.sql
\ir functions/values/part_of.sql

-- functions/timing: Jobs that start at a time: deferral times, cron schedules.
\ir functions/timing/is_time_zone.sql
\ir functions/timing/cron_values.sql
\ir functions/timing/next_cron_time.sql
\ir functions/timing/has_cron.sql
\ir functions/timing/is_timed.sql
\ir functions/timing/deferral.sql

-- functions/credentials: What jobs show to services: storing it sealed, who needs it, renewing it, its keys.
\ir functions/credentials/words_of.sql
\ir functions/credentials/needed_credentials.sql
\ir functions/credentials/check_credentials.sql
\ir functions/credentials/sealing_key.sql
\ir functions/credentials/put_credential.sql
\ir functions/credentials/delete_credential.sql
\ir functions/credentials/host_copy.sql
\ir functions/credentials/run_credentials.sql
\ir functions/credentials/register_host_key.sql
\ir functions/credentials/want_credentials.sql
\ir functions/credentials/credentials_to_seal.sql
\ir functions/credentials/put_host_credential.sql
\ir functions/credentials/note_credentials.sql
\ir functions/credentials/changed_credentials.sql
\ir functions/credentials/begin_renewal.sql
\ir functions/credentials/renew_credential.sql
\ir functions/credentials/publish_credential_key.sql
\ir functions/credentials/sealed_otherwise.sql
\ir functions/credentials/reseal_credential.sql

-- functions/checks: What may come in: the job ads of submitters, the reports of hooks.
\ir functions/checks/checked_report.sql
\ir functions/checks/is_plain_report.sql
\ir functions/checks/are_plain_parts.sql
\ir functions/checks/are_like.sql
\ir functions/checks/printed_size.sql
\ir functions/checks/has_policy.sql
\ir functions/checks/value_problem.sql
\ir functions/checks/checked_ad.sql
\ir functions/checks/container_problem.sql
\ir functions/checks/checked_names.sql
\ir functions/checks/checked_job.sql
\ir functions/checks/check_owner.sql
\ir functions/checks/check_ceilings.sql

-- functions/matching: Autoclusters and demand, what a slot could get and what it gets, shares, limits,
-- preemption.
\ir functions/matching/default_attributes.sql
\ir functions/matching/queue_attributes.sql
\ir functions/matching/follows_job.sql
\ir functions/matching/matched_names.sql
\ir functions/matching/ensure_autocluster.sql
\ir functions/matching/tell_demand.sql
\ir functions/matching/ensure_demand.sql
\ir functions/matching/end_demand.sql
\ir functions/matching/probe_rest.sql
\ir functions/matching/turned_away.sql
\ir functions/matching/group_names.sql
\ir functions/matching/group_path.sql
\ir functions/matching/group_of.sql
\ir functions/matching/quotas_of.sql
\ir functions/matching/limited_autoclusters.sql
\ir functions/matching/candidates.sql
\ir functions/matching/read_demand.sql
\ir functions/matching/autocluster_ads.sql
\ir functions/matching/group_figures.sql
\ir functions/matching/count_groups.sql
\ir functions/matching/read_groups.sql
\ir functions/matching/shares.sql
\ir functions/matching/report_faults.sql
\ir functions/matching/hold_faulty.sql
\ir functions/matching/lock_limits.sql
\ir functions/matching/named_limits.sql
\ir functions/matching/limits_on.sql
\ir functions/matching/limit_uses.sql
\ir functions/matching/count_limits.sql
\ir functions/matching/start_limits_of.sql
\ir functions/matching/claim_limits.sql
\ir functions/matching/spend_starts.sql
\ir functions/matching/blocked_by.sql
\ir functions/matching/offered_facts.sql
\ir functions/matching/claim.sql
\ir functions/matching/claim_alike.sql
\ir functions/matching/claim_many.sql
\ir functions/matching/preempt.sql

-- functions/urls: URLs of objects in buckets, presigned by who has the key.
\ir functions/urls/hmac_sha256.sql
\ir functions/urls/uri_encoded.sql
\ir functions/urls/presigned_url.sql
\ir functions/urls/object_of_url.sql
\ir functions/urls/job_url.sql
\ir functions/urls/output_targets.sql
\ir functions/urls/is_output_url.sql

-- functions/files: The files of jobs: contents, who needs them, what runs leave, bringing it back.
\ir functions/files/chunk_bytes.sql
\ir functions/files/checked_sha256.sql
\ir functions/files/is_sandbox_name.sql
\ir functions/files/check_file_room.sql
\ir functions/files/file_run.sql
\ir functions/files/part_bytes.sql
\ir functions/files/content_owner.sql
\ir functions/files/writable_content.sql
\ir functions/files/readable_content.sql
\ir functions/files/transfer_ad.sql
\ir functions/files/described_file.sql
\ir functions/files/complete_content.sql
\ir functions/files/delete_contents.sql
\ir functions/files/lacking_contents.sql
\ir functions/files/put_whole_contents.sql
\ir functions/files/begin_content.sql
\ir functions/files/put_chunk.sql
\ir functions/files/content_url.sql
\ir functions/files/end_content.sql
\ir functions/files/add_job_files.sql
\ir functions/files/add_job_key.sql
\ir functions/files/note_files_over.sql
\ir functions/files/signed_input.sql
\ir functions/files/run_files.sql
\ir functions/files/output_url.sql
\ir functions/files/read_chunk.sql
\ir functions/files/note_stored.sql
\ir functions/files/objects_over.sql
\ir functions/files/objects_deleted.sql
\ir functions/files/postpone_objects.sql
\ir functions/files/bucket_probes.sql
\ir functions/files/keep_outputs.sql
\ir functions/files/note_transfer.sql
\ir functions/files/ready_outputs.sql
\ir functions/files/leaves_for_access_point.sql
\ir functions/files/await_files.sql
\ir functions/files/forget_bringing.sql
\ir functions/files/leave_outputs.sql
\ir functions/files/left_outputs.sql
\ir functions/files/job_outputs.sql
\ir functions/files/output_clusters.sql
\ir functions/files/awaited_owners.sql
\ir functions/files/awaited_outputs.sql
\ir functions/files/not_brought.sql
\ir functions/files/give_up_bringing.sql
\ir functions/files/brought.sql
\ir functions/files/drop_outputs.sql
\ir functions/files/is_stored_for_use.sql
\ir functions/files/left_checkpoints.sql
\ir functions/files/checkpoint_owners.sql
\ir functions/files/forget_checkpoint.sql
\ir functions/files/drop_files.sql
\ir functions/files/forget_files.sql

-- functions/factories: The jobs of late clusters, which are made when they are needed.
\ir functions/factories/item_value.sql
\ir functions/factories/add_items.sql
\ir functions/factories/factory_parts.sql
\ir functions/factories/materialize.sql
\ir functions/factories/materialize_after.sql
\ir functions/factories/materialize_due.sql
\ir functions/factories/selected_factories.sql
\ir functions/factories/act_on_factories.sql
\ir functions/factories/edit_factories.sql
\ir functions/factories/begin_factory.sql

-- functions/jobs: A job's life beside its runs: submit, wait, hold, release, edit, remove, retire.
\ir functions/jobs/ensure_batch.sql
\ir functions/jobs/next_cluster.sql
\ir functions/jobs/reserve_cluster.sql
\ir functions/jobs/submission_info.sql
\ir functions/jobs/submit_like.sql
\ir functions/jobs/add_jobs.sql
\ir functions/jobs/submit_cluster.sql
\ir functions/jobs/submit_ads.sql
\ir functions/jobs/note_key.sql
\ir functions/jobs/note_submission.sql
\ir functions/jobs/submitted_as.sql
\ir functions/jobs/begin_submission.sql
\ir functions/jobs/submit_noted.sql
\ir functions/jobs/submit.sql
\ir functions/jobs/submit_many.sql
\ir functions/jobs/whole_ad.sql
\ir functions/jobs/enqueue.sql
\ir functions/jobs/stays.sql
\ir functions/jobs/ended_job.sql
\ir functions/jobs/retire_job.sql
\ir functions/jobs/leave_queue.sql
\ir functions/jobs/hold_name.sql
\ir functions/jobs/last_hold.sql
\ir functions/jobs/back_to_idle.sql
\ir functions/jobs/job_of.sql
\ir functions/jobs/job_rows.sql
\ir functions/jobs/selected_jobs.sql
\ir functions/jobs/dequeue_jobs.sql
\ir functions/jobs/hold_jobs.sql
\ir functions/jobs/release_jobs.sql
\ir functions/jobs/remove_jobs.sql
\ir functions/jobs/note_job_action.sql
\ir functions/jobs/act_on_jobs.sql
\ir functions/jobs/hold.sql
\ir functions/jobs/release.sql
\ir functions/jobs/remove.sql
\ir functions/jobs/remove_now.sql
\ir functions/jobs/vacate.sql
\ir functions/jobs/suspend.sql
\ir functions/jobs/continue.sql
\ir functions/jobs/move_jobs.sql
\ir functions/jobs/edit.sql
\ir functions/jobs/policy_jobs.sql
\ir functions/jobs/apply_policy.sql
\ir functions/jobs/ask_for_more.sql

-- functions/runs: A run's life: offered, accepted, started, alive, ended, lost.
\ir functions/runs/live_run.sql
\ir functions/runs/ended_run.sql
\ir functions/runs/known_run.sql
\ir functions/runs/run_owner.sql
\ir functions/runs/run_facts.sql
\ir functions/runs/bytes_moved.sql
\ir functions/runs/suspension_facts.sql
\ir functions/runs/closed_run.sql
\ir functions/runs/close_run.sql
\ir functions/runs/termination.sql
\ir functions/runs/provisioned.sql
\ir functions/runs/resource_table.sql
\ir functions/runs/requested_resources.sql
\ir functions/runs/completion.sql
\ir functions/runs/record_eviction.sql
\ir functions/runs/could_not_start.sql
\ir functions/runs/give_up_offer.sql
\ir functions/runs/lose_run.sql
\ir functions/runs/slot_is_free.sql
\ir functions/runs/withdraw.sql
\ir functions/runs/note_match.sql
\ir functions/runs/retry_with_more.sql
\ir functions/runs/accept.sql
\ir functions/runs/reject.sql
\ir functions/runs/start.sql
\ir functions/runs/refuse_start.sql
\ir functions/runs/fail_inputs.sql
\ir functions/runs/start_failed.sql
\ir functions/runs/heartbeat.sql
\ir functions/runs/run_policy.sql
\ir functions/runs/charge_job.sql
\ir functions/runs/settle_exit.sql
\ir functions/runs/follow_verdict.sql
\ir functions/runs/finish_not_run.sql
\ir functions/runs/finish_late.sql
\ir functions/runs/finish.sql
\ir functions/runs/accept_runs.sql
\ir functions/runs/start_facts.sql
\ir functions/runs/start_runs.sql
\ir functions/runs/renew_runs.sql
\ir functions/runs/finish_runs.sql
\ir functions/runs/report_runs.sql
\ir functions/runs/next_alike.sql
\ir functions/runs/next_runs.sql
\ir functions/runs/starter_gone.sql
\ir functions/runs/tell_host.sql
\ir functions/runs/watched_output.sql
\ir functions/runs/ship_output.sql
\ir functions/runs/end_live_runs.sql
\ir functions/runs/suspend_runs.sql

-- functions/scheduler: Jobs that an access point runs itself, and what goes with them when they are removed.
\ir functions/scheduler/dag_around.sql
\ir functions/scheduler/dag_of_others.sql
\ir functions/scheduler/remove_others.sql
\ir functions/scheduler/runs_jobs_of.sql
\ir functions/scheduler/claim_scheduler_job.sql
\ir functions/scheduler/tend_scheduler_runs.sql

-- functions/hosts: Agents and their leases, slots, black holes.
\ir functions/hosts/runs_well.sql
\ir functions/hosts/runs_elsewhere.sql
\ir functions/hosts/note_good_run.sql
\ir functions/hosts/notice_good_runs.sql
\ir functions/hosts/note_start.sql
\ir functions/hosts/host_lease.sql
\ir functions/hosts/refuse_agent.sql
\ir functions/hosts/hello.sql
\ir functions/hosts/beat.sql
\ir functions/hosts/goodbye.sql
\ir functions/hosts/report_slots.sql
\ir functions/hosts/host_runs.sql
\ir functions/hosts/clear_host.sql

-- functions/maintenance: What is done now and then by one agent for all: lost runs, delays, counts,
-- partitions, another server.
\ir functions/maintenance/take_leader_task.sql
\ir functions/maintenance/take_turn.sql
\ir functions/maintenance/sweep_demand.sql
\ir functions/maintenance/sweep_output.sql
\ir functions/maintenance/running_identity.sql
\ir functions/maintenance/server_identity.sql
\ir functions/maintenance/is_same_server.sql
\ir functions/maintenance/skip_ids.sql
\ir functions/maintenance/may_claim.sql
\ir functions/maintenance/note_move.sql
\ir functions/maintenance/go_on_offering.sql
\ir functions/maintenance/resume_offers.sql
\ir functions/maintenance/put_events_behind.sql
\ir functions/maintenance/after_restore.sql
\ir functions/maintenance/reap.sql
\ir functions/maintenance/wake.sql
\ir functions/maintenance/fold.sql
\ir functions/maintenance/count_runs.sql
\ir functions/maintenance/count_idle.sql
\ir functions/maintenance/sequence_events.sql
\ir functions/maintenance/end_stays.sql
\ir functions/maintenance/maintain_queue.sql
\ir functions/maintenance/lead.sql
\ir functions/maintenance/ensure_partition.sql
\ir functions/maintenance/renew_partitions.sql
\ir functions/maintenance/forget.sql
\ir functions/maintenance/maintain_tables.sql

-- views: what people read. Columns have HTCondor's attribute names and hold HTCondor's values (times are
-- epoch seconds, as in an ad); a column that ends in _at is a timestamptz. PostgreSQL folds unquoted names,
-- so anyone may write them as HTCondor does.
--
-- Every role may select; each view decides which rows: readers, agents and administrators see all, others see
-- those of the Owners that they may name. The two questions are asked once a query, not once a row; so the
-- condition is written out in each view: a function that asked them would be called for every row (PostgreSQL
-- does not inline what contains a subquery), at 25 times the cost. security_barrier: no function of the
-- reader's sees a row before that. No view shows a token.
\ir views/jobs.sql
\ir views/factories.sql
\ir views/clusters.sql
\ir views/history.sql
\ir views/runs.sql
\ir views/run_counts.sql
\ir views/idle_counts.sql
\ir views/host_counts.sql
\ir views/events.sql
\ir views/events_kept.sql
\ir views/slots.sql
\ir views/rests.sql
\ir views/checkpoints.sql
\ir views/credentials.sql
\ir views/hosts.sql
\ir views/unsettled.sql
\ir views/totals.sql
\ir views/demand_now.sql
\ir views/batches.sql
\ir views/autoclusters.sql
\ir views/owners.sql
\ir views/submitters.sql
\ir views/queues.sql
\ir views/limits.sql
\ir views/groups.sql
\ir views/accounting.sql
\ir views/settings.sql
\ir views/actions.sql

-- functions/reading: What readers of the views call: page edges, event logs, and why a job waits (these look
-- at views).
\ir functions/reading/named_jobs.sql
\ir functions/reading/job_edge.sql
\ir functions/reading/history_edge.sql
\ir functions/reading/run_edge.sql
\ir functions/reading/log_clusters.sql
\ir functions/reading/dag_clusters.sql
\ir functions/reading/scheduler_clusters.sql
\ir functions/reading/is_log_of.sql
\ir functions/reading/event_window.sql
\ir functions/reading/may_sequence_events.sql
\ir functions/reading/waiting_autoclusters.sql
\ir functions/reading/policies_rest.sql
\ir functions/reading/prospects.sql
\ir functions/reading/first_idle.sql
\ir functions/reading/recent_failures.sql
\ir functions/reading/host_ends.sql
\ir functions/reading/batch_ends.sql
\ir functions/reading/watch_output.sql

-- plans: the planner's settings of functions.
\ir plans.sql

-- grants: which role may do what.
\ir grants.sql
