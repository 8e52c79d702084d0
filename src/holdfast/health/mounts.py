"""What a folder is mounted from: SQLite's locks and its log do not work over a network."""

from pathlib import Path

_REMOTE = {
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "davfs",
    "gfs2",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "smbfs",
}
_REMOTE_FUSE = {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
_OF_THE_HOST = {"9p", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"}  # inside a virtual machine
_NETWORK = _REMOTE | _REMOTE_FUSE | _OF_THE_HOST
_TABLE = Path("/proc/self/mountinfo")


def network_type(folder: Path, table: Path = _TABLE) -> str | None:
    """Name the network file system that a folder lies on; None when it is local or this system does not tell."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    best, found = -1, ""
    for line in lines:
        described, separator, origin = line.partition(" - ")
        fields = described.split(" ")
        if not separator or len(fields) < 5:  # noqa: PLR2004 - see man 5 proc: the fifth field is the mount point
            continue
        point = Path(_unescaped(fields[4]))
        if (place == point or point in place.parents) and len(point.parts) >= best:  # a later mount covers an earlier
            best, found = len(point.parts), origin.split(" ")[0]
    return found if found in _NETWORK else None


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
