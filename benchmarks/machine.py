"""Where the figures come from: without it they cannot be compared with anybody else's."""

import os
import platform
import tempfile
from pathlib import Path

import psutil  # type: ignore[import-untyped] # it carries no types


def about() -> dict[str, object]:
    """Describe this machine."""
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "disk": _filesystem(Path(tempfile.gettempdir())),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _filesystem(folder: Path) -> str:
    """Tell the kind of file system on which the stores are: a sync costs nothing in memory."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if folder.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "unknown"
