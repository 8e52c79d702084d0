"""Which release of Holdfast this is."""

from importlib.metadata import PackageNotFoundError, version

try:
    RELEASE = version("holdfast")
except PackageNotFoundError:  # the sources are on the path without being installed
    RELEASE = "0+unknown"
