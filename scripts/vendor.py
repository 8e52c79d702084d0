"""Bring the front end's libraries into the project, or check them: `python scripts/vendor.py [--fetch]`.

`static/vendor.json` names each file: version, public source, licence and SHA-256. `--fetch` reads it from GitHub, or
from a clone of the same repository given as `--clone owner/name=folder`, and keeps it only if the hash is right.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent.parent / "src" / "holdfast" / "server" / "static"
LICENSES = "LICENSES.txt"


def listed() -> list[dict[str, Any]]:
    """Read which files there are to be."""
    found: list[dict[str, Any]] = json.loads((STATIC / "vendor.json").read_text())["files"]
    return found


def fetched(entry: dict[str, Any], path: str, clones: dict[str, str]) -> bytes:
    """Read one file of a library's repository, at the commit that is named."""
    folder = clones.get(entry["source"])
    if folder is not None:
        asked = ["git", "-C", folder, "show", f"{entry['commit']}:{path}"]
        return subprocess.run(asked, check=True, capture_output=True).stdout  # noqa: S603 - a name from our own list
    address = f"https://raw.githubusercontent.com/{entry['source']}/{entry['commit']}/{path}"
    with urllib.request.urlopen(address, timeout=30) as answer:
        content: bytes = answer.read()
        return content


def fetch(clones: dict[str, str]) -> None:
    """Replace all files and the texts of their licences."""
    licences: dict[str, str] = {}
    for entry in listed():
        content = fetched(entry, entry["path"], clones)
        found = hashlib.sha256(content).hexdigest()
        if found != entry["sha256"]:
            sys.exit(f"{entry['file']}: expected SHA-256 {entry['sha256']}, got {found}; nothing of it was kept")
        (STATIC / entry["file"]).write_bytes(content)
        text = fetched(entry, entry["licence_path"], clones).decode().strip()
        licences[f"{entry['name']} {entry['version']} ({entry['licence']}), github.com/{entry['source']}"] = text
    parts = [f"{title}\n{'-' * len(title)}\n\n{text}\n" for title, text in licences.items()]
    (STATIC / LICENSES).write_text("\n\n".join(parts))


def wrong() -> list[str]:
    """Say which files are not what the list says."""
    found = []
    for entry in listed():
        file = STATIC / entry["file"]
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            found.append(f"{entry['file']} is not {entry['name']} {entry['version']} as listed")
    return found


def main() -> None:
    """Fetch if asked to, then check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true", help="replace the files by those of their sources")
    parser.add_argument(
        "--clone", action="append", default=[], metavar="OWNER/NAME=FOLDER", help="read a clone instead"
    )
    given = parser.parse_args()
    if given.fetch:
        fetch(dict(clone.split("=", 1) for clone in given.clone))
    if mistakes := wrong():
        sys.exit("\n".join(mistakes) + "\nrun `python scripts/vendor.py --fetch`")
    print(f"{len(listed())} files are as listed")


if __name__ == "__main__":
    main()
