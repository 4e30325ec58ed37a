"""Finds the lines of a submit description without effect, of which condor_submit warns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fetchwork.queue.submitting import oauth

#: the commands that HTCondor reads, 23.9 to 25.14, including those of other universes
COMMANDS = frozenset(
    """
accounting_group accounting_group_user accountinggroup acctgroupuser allowed_execute_duration
allowed_job_duration allowedexecuteduration allowedjobduration append_files appendfiles arc_application
arc_data_staging arc_resources arc_rte args arguments aws_access_key_id_file aws_region
aws_secret_access_key_file awsregion azure_admin_key azure_admin_username azure_auth_file azure_image
azure_location azure_size batch_extra_submit_args batch_id batch_name batch_project batch_queue
batch_runtime buffer_block_size buffer_files buffer_size bufferblocksize bufferfiles buffersize
checkpoint_destination checkpoint_exit_code checkpointdestination cloud_label_names cmd compress_files
compressfiles concurrency_limits concurrency_limits_expr container_image container_is_common
container_service_names container_target_dir containerimage containertargetdir copy_to_spool core_size
coresize cron_day_of_month cron_day_of_week cron_hour cron_minute cron_month cron_prep_time cron_window
crondayofmonth crondayofweek cronhour cronminute cronmonth cuda_version dag_status dagman_job_id dagman_log
dagmanjobid dagmannodeslog dagnodename deferral_prep_time deferral_time deferral_window deferraltime
delegate_job_gsi_credentials_lifetime description disk_usage diskusage docker_image docker_network_type
docker_override_entrypoint docker_pull_policy docker_send_credentials dockerimage dockernetworktype
dont_encrypt_input_files dont_encrypt_output_files dontencryptinputfiles dontencryptoutputfiles
ec2_access_key_id ec2_ami_id ec2_availability_zone ec2_block_device_mapping ec2_ebs_volumes ec2_elastic_ip
ec2_iam_profile_arn ec2_iam_profile_name ec2_instance_type ec2_keypair ec2_keypair_file ec2_parameter_names
ec2_secret_access_key ec2_security_groups ec2_security_ids ec2_spot_price ec2_tag_names ec2_user_data
ec2_user_data_file ec2_vpc_ip ec2_vpc_subnet ec2accesskeyid ec2secretaccesskey email_attributes
emailattributes encrypt_execute_directory encrypt_input_files encrypt_output_files encryptexecutedirectory
encryptinputfiles encryptoutputfiles env environment erase_output_and_error_on_restart
eraseoutputanderroronrestart error executable failed_count fetch_files fetchfiles file_remaps fileremaps
gce_account gce_auth_file gce_image gce_json_file gce_machine_type gce_metadata gce_metadata_file
gce_preemptible get_env getenv gpus_maximum_capability gpus_minimum_capability gpus_minimum_memory
gpus_minimum_runtime grid_resource gs_access_key_id_file gs_secret_access_key_file hold hold_kill_sig
holdkillsig image_size imagesize initial_dir initialdir input interactive interactive_args
interactive_executable isnoopjob iwd jar_files jarfiles java_vm_args java_vm_arguments job
job_ad_information_attrs job_iwd job_lease_duration job_machine_attrs job_machine_attrs_history_length
job_max_vacate_time jobadinformationattrs jobbatchname jobdescription jobleaseduration jobmachineattrs
jobmaterializelimit jobmaterializemaxidle jobmaxretries jobmaxvacatetime jobnotification jobprio jobset
jobsetname jobstarterdebug jobstarterlog jobsuccessexitcode jobuniverse keep_claim_idle keepclaimidle
kill_sig kill_sig_timeout killsig killsigtimeout lastmatchlistlength leave_in_queue leavejobinqueue
load_profile loadprofile local_files localfiles log log_xml machine_count manifest manifest_dir
manifestdesired manifestdir match_list_length materialize_max_idle max_idle max_job_retirement_time
max_materialize max_retries max_transfer_input_mb max_transfer_output_mb maxtransferinputmb
maxtransferoutputmb mount_under_scratch mountunderscratch next_job_start_delay nextjobstartdelay nice_user
niceuser node_count noop_job noop_job_exit_code noop_job_exit_signal notification notify_user notifyuser
on_evict_checks on_exit_hold on_exit_hold_reason on_exit_hold_subcode on_exit_remove onexithold
onexitholdreason onexitholdsubcode onexitremove output output_destination output_directory outputdestination
outputdirectory parallel_script_shadow parallel_script_starter periodic_hold periodic_hold_reason
periodic_hold_subcode periodic_release periodic_remove periodic_vacate periodichold periodicholdreason
periodicholdsubcode periodicrelease periodicremove periodicvacate preferences preserve_relative_paths
preserverelativepaths primary_unix_group primaryunixgroup prio priority project_name public_input_files
publicinputfiles rank remote_initialdir remoteiwd remove_kill_sig removekillsig rendezvousdir requestcpus
requestdisk requestgpus requestmemory require_gpus requirements retry retry_request_disk
retry_request_memory retry_request_memory_increase retry_request_memory_max retry_until run_as_owner
runasowner s3_access_key_id_file s3_secret_access_key_file scitokens_file scitokensfile shell
should_transfer_files shouldtransferfiles skip_filechecks skip_if_dataflow skipifdataflow stack_size
starter_debug starter_log stderr stdin stdout stream_error stream_input stream_output streamerr streamin
streamout submit_event_notes submit_event_notes_attrs submit_event_user_notes submit_file submiteventnotes
submiteventusernotes submitfailemptyfields submitfailemptymatches submitwarnduplicatematches
submitwarnemptyfields submitwarnemptymatches success_exit_code successcheckpointexitcode tool_daemon_cmd
tooldaemoncmd transfer_checkpoint_files transfer_common_input transfer_container transfer_error
transfer_executable transfer_input transfer_input_files transfer_output transfer_output_files
transfer_output_remaps transfer_plugins transfercheckpoint transfercontainer transfererr transferexecutable
transferin transferinputfiles transferout transferoutputfiles transferoutputremaps transferplugins
transformonevict ulog_execute_attrs universe use_oauth_services use_scitoken use_scitokens use_x509userproxy
useoauthservices userlog userlogexecuteeventattrs userlogusexml vm_checkpoint vm_disk vm_macaddr vm_memory
vm_networking vm_networking_type vm_no_output_vm vm_type want_graceful_removal want_io_proxy
want_job_networking wantgracefulremoval wantioproxy wantjobnetworking wantnametag when_to_transfer_output
whentotransferoutput x509userproxy xen_initrd xen_kernel xen_kernel_params xen_root
""".split()  # noqa: SIM905 - a list of them would be a page
)

#: attributes of the job, and requests of resources, which may have any name
_ANY = re.compile(r"(?:\+|my\.|request_)|.*\.")
_SETS = re.compile(r"\s*(\+?[\w.]+)\s*(?:@=\s*(\w+)\s*$|=(.*))", re.DOTALL)
_REFERS = re.compile(r"\$\w*\(\s*([\w.]+)")


@dataclass(frozen=True)
class Line:
    """A line that sets a command, or a macro of the description's own."""

    name: str
    value: str
    number: int


def unused(text: str) -> list[Line]:
    """The lines that set a name that is no command and that no line uses, in condor_submit's order.

    Lines in conditions are left out; a description that includes a file gets no warning.
    """
    given: dict[str, Line] = {}
    conditional: set[str] = set()
    refers = set()
    depth = 0
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        while line.endswith("\\"):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip()  # noqa: PLW2901 - it goes on there
        word = line.split(None, 1)[0].lower() if line.strip() else ""
        if word in ("include", "use"):
            return []
        found = _SETS.match(line)
        if found is None:
            depth += (word == "if") - (word == "endif")
            # conditions and the queue statement
            refers.update(_REFERS.findall(line.lower()))
            continue
        value = found[3]
        if found[2] is not None:
            items = []
            for _, item in lines:
                if item.strip() == f"@{found[2]}":
                    break
                items.append(item.strip())
            value = "\n".join(items)
        given[found[1].lower()] = Line(found[1], value.strip(), number)
        if depth:
            conditional.add(found[1].lower())
    used = _used(given, refers)
    return [given[key] for key in sorted(given.keys() - used - conditional, reverse=True)]


def _used(given: dict[str, Line], refers: set[str]) -> set[str]:
    """The commands, and the names that they, conditions and the queue statement (``refers``) refer to."""
    has_credentials = "use_oauth_services" in given
    used: set[str] = set()
    new = {
        key
        for key in given
        if key in refers or key in COMMANDS or _ANY.match(key) or (has_credentials and oauth.is_command(key))
    }
    while new:
        used |= new
        values = " ".join(given[key].value.lower() for key in new)
        new = (set(_REFERS.findall(values)) & given.keys()) - used
    return used
