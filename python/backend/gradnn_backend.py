"""The build backend of pyproject.toml: scikit-build-core's, and then auditwheel,
which finds the oldest glibc that the wheel's libraries run with and writes it
into the wheel's name (manylinux_2_34 and the like)."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.build import build_wheel as _build_wheel
from scikit_build_core.build import (
    get_requires_for_build_wheel as _get_requires_for_build_wheel,
)

# What the wheel does not carry: the GPU's driver and cuDNN, which are loaded if
# they are there, and OpenMP, of which a process shall have one.
_NOT_CARRIED = ["libcuda.so.1", "libcudnn.so.9", "libgomp.so.1"]
# Whose headers JAX's handlers are compiled with; it has no wheels for older ones.
_JAXLIB = "jaxlib>=0.6; python_version >= '3.11'"


def get_requires_for_build_wheel(
    config_settings: dict[str, list[str] | str] | None = None,
) -> list[str]:
    wanted = list(_get_requires_for_build_wheel(config_settings))
    if (config_settings or {}).get("cmake.define.GRADNN_JAX") != "OFF":
        wanted.append(_JAXLIB)
    return wanted


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, list[str] | str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    target = pathlib.Path(wheel_directory)
    with tempfile.TemporaryDirectory() as folder:
        built = _build_wheel(folder, config_settings, metadata_directory)
        made = pathlib.Path(folder) / built
        repaired = pathlib.Path(folder) / "repaired"
        command = [sys.executable, "-m", "auditwheel", "repair"]
        for name in _NOT_CARRIED:
            command += ["--exclude", name]
        done = subprocess.run(
            [*command, "--wheel-dir", str(repaired), str(made)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        found = sorted(repaired.glob("*.whl"))
        if done.returncode == 0 and found:
            made = found[0]
        else:
            # It serves this machine all the same.
            print(f"auditwheel refuses the wheel:\n{done.stdout}", file=sys.stderr)
        (target / made.name).write_bytes(made.read_bytes())
        return made.name
