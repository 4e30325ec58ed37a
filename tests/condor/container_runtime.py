"""A container runtime for tests, with apptainer's command line: a job in it really has another root.

Debian has no package of a runtime that would do. This one is a set-user-ID program of root that starts the
code below: it makes a root directory of the system's programs and the image, which is a tar file, a directory
or a URL; it writes its arguments to a file beside it.
"""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

PROGRAM = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char caller[64];
    snprintf(caller, sizeof caller, "%u:%u", getuid(), getgid());
    setenv("RUNTIME_CALLER", caller, 1);
    if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
        return 1;
    char *with[argc + 4];
    with[0] = "python3";
    with[1] = "-I";
    with[2] = SCRIPT;
    for (int at = 1; at <= argc; at++)
        with[at + 2] = argv[at];
    execv("/usr/bin/python3", with);
    return 1;
}
"""

SCRIPT = r"""
import json, os, pathlib, subprocess, sys, tarfile

WITH_VALUE = {"-S", "-B", "-W", "--pwd", "--home"}
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
if "--version" in words:
    print("apptainer version 1.3.4")
    sys.exit(0)
words = [word for word in words if word not in ("-s", "-q", "-d")]
verb, *words = words
options, binds, pwd = [], [], "/"
while words and words[0].startswith("-"):
    option = words.pop(0)
    options.append(option)
    if option in WITH_VALUE:
        value = words.pop(0)
        options.append(value)
        if option == "-B":
            binds.append(value)
        if option == "--pwd":
            pwd = value
image, *command = words
environment = {}
for name, value in os.environ.items():
    for prefix in ("APPTAINERENV_", "SINGULARITYENV_"):
        if name.startswith(prefix):
            environment[name.removeprefix(prefix)] = value
with open(here / "calls", "a") as calls:
    calls.write(json.dumps({"verb": verb, "options": options, "image": image, "command": command,
                            "environment": environment}) + "\n")
if "exit_37" in " ".join(command):
    # with which a startd finds out what a runtime can do
    sys.exit(37)
if "broken" in image:
    print("FATAL:   could not open image " + image)
    sys.exit(255)
if verb == "test":
    sys.exit(0)
root = "/mnt"
os.unshare(os.CLONE_NEWNS)
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
mount("-t", "tmpfs", "none", root)
for name in ("usr", "bin", "lib", "lib64", "dev", "proc"):
    if os.path.islink("/" + name):
        os.symlink(os.readlink("/" + name), root + "/" + name)
    elif os.path.isdir("/" + name):
        os.mkdir(root + "/" + name)
        mount("--rbind", "/" + name, root + "/" + name)
if "://" in image:
    pathlib.Path(root, "image").write_text(image + "\n")
elif os.path.isdir(image):
    subprocess.run(["cp", "-r", image + "/.", root], check=True)
else:
    with tarfile.open(image) as tar:
        tar.extractall(root, filter="tar")
for bind in binds:
    source, _, target = bind.partition(":")
    target = root + (target or source)
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        pathlib.Path(target).touch()
    mount("--bind", source, target)
os.chroot(root)
uid, gid = map(int, os.environ["RUNTIME_CALLER"].split(":"))
os.setgroups([gid])
os.setgid(gid)
os.setuid(uid)
os.chdir(pwd)
environment.setdefault("PATH", "/usr/bin:/bin")
try:
    os.execvpe(command[0], command, environment)
except OSError as error:
    print(f"FATAL:   {command[0]}: {error.strerror}", file=sys.stderr)
    sys.exit(255)
"""


DOCKER = r"""
import json, os, pathlib, sys

WITH_VALUE = {"--security-opt", "--name", "--log-driver", "-e", "--volume", "--device", "--workdir", "--user",
              "--group-add", "--hostname", "-p", "--pull", "--shm-size", "--entrypoint"}
here = pathlib.Path(__file__).parent
verb, *words = sys.argv[1:]
if verb == "-v":
    print("Docker version 27.1.1, build 6312585")
elif verb == "info":
    print("Server Version: 27.1.1")
elif verb == "create":
    options = []
    while words[0].startswith("-"):
        options.append(words.pop(0))
        if options[-1] in WITH_VALUE:
            options.append(words.pop(0))
    image, *command = words
    name = options[options.index("--name") + 1]
    with open(here / "docker-calls", "a") as calls:
        calls.write(json.dumps({"image": image, "options": options, "command": command}) + "\n")
    if "broken" in image:
        print("Error response from daemon: pull access denied for " + image, file=sys.stderr)
        sys.exit(125)
    (here / name).write_text(json.dumps({"options": options, "command": command}))
elif verb == "start":
    made = json.loads((here / words[-1]).read_text())
    options = made["options"]
    def of(option):
        return [options[at + 1] for at, one in enumerate(options) if one == option]
    uid, gid = map(int, of("--user")[0].split(":"))
    child = os.fork()
    if not child:
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
        os.chdir(of("--workdir")[0])
        environment = dict(one.split("=", 1) for one in of("-e"))
        os.execvpe(made["command"][0], made["command"], {"PATH": "/usr/bin:/bin", **environment})
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    (here / (words[-1] + ".exit")).write_text(str(code))
    sys.exit(code & 255)
elif verb == "inspect" and "State.Pid" in words[1]:
    code = (here / (words[-1] + ".exit")).read_text()
    print(f'ContainerId="x"\nPid=0\nName="/{words[-1]}"\nRunning=false\nExitCode={code}\n'
          'StartedAt="x"\nFinishedAt="x"\nDockerError=""\nOOMKilled="false"')
elif verb == "inspect":
    print("amd64")
"""


def make(directory: Path) -> Path:
    """Install the runtime's program in a directory that every account may enter."""
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    return _make_program(directory / "apptainer", SCRIPT)


def make_docker(directory: Path) -> Path:
    """Install a stand-in of docker there: it runs containers on the host, and writes down its arguments."""
    return _make_program(directory / "docker", DOCKER)


def _make_program(program: Path, text: str) -> Path:
    script = program.with_name(f"{program.name}.py")
    script.write_text(text)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run(
        [compiler, "-x", "c", "-", "-static", f'-DSCRIPT="{script}"', "-o", str(program)],
        input=PROGRAM,
        text=True,
        check=True,
    )
    os.chmod(program, 0o4755)
    return program


def image(name: str) -> bytes:
    """An image file, in which "/image" is a file with the name."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("image")
        member.size, member.mode = len(name) + 1, 0o644
        tar.addfile(member, io.BytesIO(f"{name}\n".encode()))
    return data.getvalue()
