"""Which release of Holdfast this is."""

from importlib.metadata import PackageNotFoundError, version

try:
    RELEASE = version("holdfast-jobs")
except PackageNotFoundError:  # the sources are on the path without being installed
    RELEASE = "0+unknown"
