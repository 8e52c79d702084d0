"""Writes the reference of the resources from their types: one section for each, one row for each field."""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from holdfast.resources.catalogue import FieldDescription, describe, resources


class Resources(SphinxDirective):
    """`:::{resources}`: every resource, by name."""

    def run(self) -> list[nodes.Node]:
        """Write the sections into the page."""
        section = nodes.section()
        section.document = self.state.document
        text = "\n\n".join("\n".join(_section(kind)) for kind in resources())
        nested_parse_with_titles(self.state, StringList(text.splitlines(), source="resources"), section)
        return section.children


def _section(kind: type) -> Iterator[str]:
    yield f"## {kind.__name__}"
    yield ""
    yield (kind.__doc__ or "").strip()
    yield ""
    yield "| Field | Type | Meaning |"
    yield "|---|---|---|"
    for field in describe(kind):
        yield f"| `{field.name}` | `{field.type}` | {_meaning(field)} |"


def _meaning(field: FieldDescription) -> str:
    return field.about.description.replace("|", "\\|")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("resources", Resources)
    return {"parallel_read_safe": True}
