"""Whether a host can run a job in a container: its runtime works, and the image is there.

The starter makes the container, with the program that HTCondor's setting SINGULARITY names. If that program
is missing, HTCondor 23 blocks the slot for ever; if an image does not work, it calls no hook. So PREPARE_JOB
checks both first.
"""

import os
import subprocess

from fetchwork.sandbox import hostsettings

#: seconds for the runtime to answer; condor_config_val has as many, and PREPARE_JOB has 20
ANSWER_S = 5.0
#: HTCondor's default
_RUNTIME = "/usr/bin/singularity"


def problem_of(image: str, *, by_configuration: bool = False) -> str:
    """Why a job can't run in a container here; empty if it can.

    ``image`` is a path, a URL or empty; only a path is checked. ``by_configuration``: the host's own
    configuration makes the container (SINGULARITY_JOB). An image's problem is in HTCondor's words.
    """
    try:
        runtime, makes_containers = hostsettings.ask("SINGULARITY", "SINGULARITY_JOB")
    except hostsettings.SettingsUnknown as error:
        return f"the container runtime of this host is not known: {error}"
    if by_configuration and makes_containers.strip().lower() in ("", "false"):
        return "this host makes no containers for SingularityImage (SINGULARITY_JOB is not set)"
    runtime = runtime.strip() or _RUNTIME
    problem = _problem_of_runtime(runtime)
    if problem:
        return f"this host has no container runtime that works: '{runtime}' {problem}"
    return "" if by_configuration else problem_of_image(image)


def problem_of_image(image: str) -> str:
    """Why an image can't be used, in HTCondor's words; empty if it can, and for a URL or no image."""
    if image and "://" not in image:
        try:
            # an image is a file, or a directory with an unpacked image
            os.close(os.open(image, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return f"Singularity test failed:image '{image}': {error.strerror}"
    return ""


def _problem_of_runtime(runtime: str) -> str:
    try:
        done = subprocess.run(
            [runtime, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
        )
    except OSError as error:
        return f"can't be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"does not answer within {ANSWER_S:.0f} s"
    return f"--version ends with {done.returncode}" if done.returncode else ""
