"""The app that a configuration file names."""

import os
from pathlib import Path

from holdfast.configuration import files
from holdfast.configuration.environment import WRONG, expanded
from holdfast.configuration.report import Report


def named_app(file: Path) -> str | None:
    """Read the name of the app in a file, without a look at the rest; what cannot be read at all is refused."""
    report = Report(files.shown_path(file))
    document = files.read(file, report)
    if not document:
        report.refuse()
    app = expanded({"app": document.get("app")}, os.environ, report)["app"]
    return None if app is None or app is WRONG else str(app)
