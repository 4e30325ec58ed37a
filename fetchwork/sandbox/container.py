"""Whether a host can run a job in a container: its runtime works, and the image is there.

The starter makes the container, with the program that HTCondor's setting SINGULARITY names. Where that is
missing HTCondor 23 stops its slot for ever, and where an image does not work it calls no hook: so PREPARE_JOB
looks first.
"""

import os
import subprocess

#: seconds for a program to answer; three are asked, and PREPARE_JOB has 20
ANSWER_S = 5.0
#: HTCondor's default
_RUNTIME = "/usr/bin/singularity"


def problem_of(image: str, *, by_configuration: bool = False) -> str:
    """Why a job can't run in a container here; empty where it can.

    ``image`` is a path, or a URL, or empty: it is not looked at then. ``by_configuration``: it is the host's
    configuration that makes a container (SINGULARITY_JOB). The words of an image's problem are HTCondor's.
    """
    if by_configuration and _setting("SINGULARITY_JOB").lower() in ("", "false"):
        return "this host makes no containers for SingularityImage (SINGULARITY_JOB is not set)"
    runtime = _setting("SINGULARITY") or _RUNTIME
    problem = _problem_of_runtime(runtime)
    if problem:
        return f"this host has no container runtime that works: '{runtime}' {problem}"
    if image and not by_configuration and "://" not in image:
        try:
            # a directory is entered, a file is read
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


def _setting(name: str) -> str:
    """HTCondor's setting on this host; empty where it is not set, or nobody says so."""
    try:
        done = subprocess.run(
            ["condor_config_val", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
