"""Compiled hooks for a pool whose root has no compiler."""

from pathlib import Path

from fetchwork.deploy import compiled
from fetchwork.hook.wire import HOOKS, RUNNER
from fetchwork.pool import PersonalPool


def hook_directory(pool: PersonalPool) -> Path:
    """The directory of the hooks of a pool with one keyword."""
    (conf,) = (pool.directory / "hooks").glob("*/hook.conf")
    return conf.parent


def compile_hooks(directory: Path) -> None:
    """Replace the Python hooks by compiled ones, as ``fetchwork hooks install --compiled`` does."""
    built = directory / ".compiled"
    compiled.compile_hook(built)
    for name in HOOKS:
        script, new = directory / f"{name}.py", directory / f".{name}"
        script.write_bytes((directory / name).read_bytes())
        script.chmod(0o755)
        # slots call the hooks meanwhile
        new.hardlink_to(built)
        new.rename(directory / name)
    (directory / RUNNER).hardlink_to(built)
    built.unlink()
