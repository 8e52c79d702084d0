"""How Sphinx builds the documentation; it needs no network."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Holdfast"
author = "The Holdfast authors"
copyright = "The Holdfast authors"
release = metadata.version("holdfast-jobs")

extensions = ["myst_parser", "resource_pages"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Holdfast {release}"
html_copy_source = False
html_show_sphinx = False
