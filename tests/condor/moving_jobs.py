"""Submit descriptions of many sorts, as a schedd's users write them: jobs that move, and jobs that stay."""

import textwrap

#: the directory of the jobs' files, on the pool's machine
DIRECTORY = "/home/moving"
#: by name there, their text
FILES = {
    "data/a": "a\n",
    "data/deep/b": "b\n",
    "words": "one two\nthree\n",
    "show": 'printf "<%s>\\n" "$@"\nenv | grep ^SHOWN_ | sort\n',
    "tree": "#!/bin/sh\n"
    "for f in a words data/a data/deep/b deep/b; do [ ! -e $f ] || echo $f $(cat $f); done\n"
    "mkdir made && echo it > made/file\n",
}
_COMMON = f"""
initialdir = {DIRECTORY}
transfer_executable = false
should_transfer_files = NO
requirements = MY.Side =!= undefined
"""
_OUTPUT = "output = SIDE.NAME.$(ProcId).out\nerror = SIDE.NAME.$(ProcId).err\n"


def description(name: str, side: str) -> str:
    """The description of jobs with the attributes Sort and Side."""
    text = _COMMON + f'+Sort = "{name}"\n+Side = "{side}"\n'
    if name in MOVING:
        text += _OUTPUT + MOVING[name]
    else:
        text += STAYING[name][0]
    return textwrap.dedent(text.replace("NAME", name.replace(" ", "_")).replace("SIDE", side))


#: descriptions of jobs that move and write the same here
RUNNING = {
    "plain": "executable = /bin/echo\narguments = plain\nqueue",
    "old arguments": rf"""
        executable = /bin/sh
        arguments = {DIRECTORY}/show one \"two\" 'three
        queue""",
    "new arguments": f"""
        executable = /bin/sh
        arguments = "{DIRECTORY}/show one 'two  ''quoted''' ""three"" $(ProcId)"
        queue 2""",
    "old environment": f"""
        executable = /bin/sh
        arguments = {DIRECTORY}/show
        environment = SHOWN_A=1;SHOWN_B=two three
        queue""",
    "new environment": f"""
        executable = /bin/sh
        arguments = {DIRECTORY}/show
        environment = "SHOWN_A=1 SHOWN_B='two  ''three''' SHOWN_C=''"
        queue""",
    "input": "executable = /bin/cat\ninput = words\nstream_output = true\nstream_error = true\nqueue",
    "directories": """
        executable = tree
        transfer_executable = true
        should_transfer_files = YES
        when_to_transfer_output = ON_EXIT
        transfer_input_files = data, data/, words
        transfer_output_files = made
        transfer_output_remaps = "made = SIDE.made"
        queue""",
    "items": """
        executable = /bin/echo
        arguments = $(ProcId) $(word) $(number)
        request_memory = $(memory)
        queue word, number, memory from (
            alpha, 1, 16
            beta, 2, 32
            gamma, 3, 32
        )""",
    "slot's values": "executable = /bin/echo\narguments = $$(Arch) $$([Memory > 1])\nqueue",
    "retries": f"""
        executable = /bin/sh
        arguments = "-c 'echo again >> {DIRECTORY}/SIDE.tries; exit $(ProcId)'"
        max_retries = 2
        success_exit_code = 1
        queue 2""",
}
#: those of all jobs that move
MOVING = RUNNING | {
    "many": "executable = /bin/true\nqueue 500",
    "on exit": """
        executable = /bin/true
        on_exit_remove = ExitBySignal == false && ExitCode == 0
        on_exit_hold = ExitCode =!= 0
        on_exit_hold_reason = strcat("ended with ", ExitCode)
        on_exit_hold_subcode = 3
        queue""",
    "periodic": """
        executable = /bin/true
        periodic_hold = JobStatus == 2 && time() - EnteredCurrentStatus > 3600
        periodic_hold_reason = "an hour"
        periodic_hold_subcode = 12
        periodic_release = NumJobStarts < 3
        periodic_remove = time() - QDate > 7 * 24 * 3600
        allowed_execute_duration = 1000
        allowed_job_duration = 2000
        queue""",
    "deferred": """
        executable = /bin/true
        deferral_time = 2000000000
        deferral_window = 600
        deferral_prep_time = 120
        queue""",
    "cron": """
        executable = /bin/true
        cron_minute = 0-59/15
        cron_hour = 3
        cron_day_of_week = 1,3
        on_exit_remove = false
        queue""",
    "requirements": r"""
        executable = /bin/true
        requirements = regexp("^slot", TARGET.Name) && TARGET.Cpus >= MY.RequestCpus
        rank = Mips + 10 * (Machine == "a\"b")
        request_cpus = 2
        request_disk = 1GB
        request_memory = 2GB
        queue""",
    "GPUs": """
        executable = /bin/true
        request_gpus = 2
        gpus_minimum_memory = 4GB
        gpus_minimum_capability = 7.0
        queue""",
    "limits": "executable = /bin/true\nconcurrency_limits = db:2, licence\nqueue",
    "priority": "executable = /bin/true\npriority = -7\nqueue",
    "group": """
        executable = /bin/true
        accounting_group = physics.muons
        accounting_group_user = carol
        queue""",
    "attributes": r"""
        executable = /bin/true
        +Quoted = "a \"b\" c\\d, e'f"
        +Many = { 1, "two", { 3.0, undefined }, true }
        +Nested = [ a = 1; b = [ c = "d"; e = { 1 } ] ]
        +Ratio = 2.0
        +Formula = time() - QDate > 60 ? "old" : "new"
        +Nothing = undefined
        MY.Mine = "yes"
        queue""",
    "mail": "executable = /bin/true\nnotification = Always\nnotify_user = bob@example.org\nqueue",
    "container": """
        universe = container
        container_image = docker://debian:13
        container_target_dir = /work
        executable = /bin/true
        should_transfer_files = YES
        queue""",
    "signals": """
        executable = /bin/true
        kill_sig = SIGUSR1
        remove_kill_sig = SIGINT
        hold_kill_sig = SIGHUP
        kill_sig_timeout = 5
        job_max_vacate_time = 30
        max_job_retirement_time = 60
        want_graceful_removal = true
        queue""",
    "left": """
        executable = /bin/true
        leave_in_queue = JobStatus == 4 && time() - CompletionDate < 3600
        queue""",
    "checkpoints": """
        executable = tree
        transfer_executable = true
        should_transfer_files = YES
        checkpoint_exit_code = 85
        transfer_checkpoint_files = state
        queue""",
    "log": """
        executable = /bin/true
        log = log
        batch_name = nightly
        description = a job of the night
        submit_event_notes = from the night
        queue""",
}
_TRUE = "executable = /bin/true\n"
#: by the word of the how-to page, the description of jobs that stay, and a part of the line about them
STAYING = {
    "nice_user": (f"{_TRUE}nice_user = true\nqueue 3", "it has nice_user: use priority"),
    "docker_image": (f"{_TRUE}universe = docker\ndocker_image = debian:13\nqueue", "use container_image"),
    "local": (f"{_TRUE}universe = local\nrequirements = false\nqueue", "universe local"),
    "scheduler": (f"{_TRUE}universe = scheduler\nrequirements = false\nqueue", "universe scheduler"),
    "grid": (
        f"{_TRUE}universe = grid\ngrid_resource = condor ap.example.org cm.example.org\nqueue",
        "universe grid",
    ),
    "vm": (
        "universe = vm\nexecutable = machine\nvm_type = kvm\nvm_memory = 64\nvm_disk = words:vda:w\nqueue",
        "universe vm",
    ),
    "parallel": (f"{_TRUE}universe = parallel\nmachine_count = 2\nqueue", "universe parallel"),
    "java": ("universe = java\nexecutable = words\narguments = Main\nqueue", "universe java"),
    "max_materialize": (f"{_TRUE}max_materialize = 2\nqueue 5", "max_materialize"),
    "scitokens_file": (
        f"{_TRUE}should_transfer_files = YES\nscitokens_file = words\nqueue",
        '"ScitokensFile"',
    ),
    "x509userproxy": (f'{_TRUE}+X509UserProxy = "words"\nqueue', '"X509UserProxy"'),
    "use_oauth_services": (f'{_TRUE}+OAuthServicesNeeded = "box"\nqueue', "fetchwork credential add box"),
    "encrypt_execute_directory": (
        f"{_TRUE}encrypt_execute_directory = true\nqueue",
        '"EncryptExecuteDirectory"',
    ),
    "next_job_start_delay": (f"{_TRUE}next_job_start_delay = 5\nqueue", '"NextJobStartDelay"'),
    "+JobSetName": (f'{_TRUE}+JobSetName = "night"\nqueue', '"JobSetName"'),
    "+WantIOProxy": (f"{_TRUE}+WantIOProxy = true\nqueue", '"WantIOProxy"'),
    "input that is gone": (
        f"{_TRUE}should_transfer_files = YES\ntransfer_input_files = gone\nqueue",
        "No such file or directory",
    ),
    "condor_submit -spool": (
        f"{_TRUE}should_transfer_files = YES\ntransfer_input_files = words\nqueue",
        "its input files are in the schedd's spool",
    ),
    "hold = true": (f"{_TRUE}hold = true\nqueue", "it is held, not idle"),
}
