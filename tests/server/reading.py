"""Reading a page as a browser does: its elements, forms and parts, and what is wrong with it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"meta", "link", "input", "br", "img", "hr", "wbr"}
_SCRIPTS = {"script", "iframe", "object", "embed", "base"}


@dataclass
class Form:
    """A form: where it goes, and what it would send."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Reading(HTMLParser):
    """One page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.faults: list[str] = []
        self.forms: list[Form] = []
        self.parts: list[str] = []
        self.labelled: set[str] = set()
        self.inputs: list[dict[str, str]] = []
        self.said: list[str] = []
        self._open: list[str] = []
        self._select: str | None = None
        self._area: str | None = None
        self.feed(text)
        self.close()
        if self._open:
            self.faults.append(f"never closed: {self._open}")
        self.faults += [
            f"no label: {given}"
            for given in self.inputs
            if given.get("type") != "hidden" and given.get("id") not in self.labelled and "aria-label" not in given
        ]

    @property
    def text(self) -> str:
        """All that it says."""
        return " ".join("".join(self.said).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        self._check(tag, given)
        if tag not in _EMPTY:
            self._open.append(tag)
        if "data-part" in given:
            self.parts.append(given["data-part"])
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get")))
        if tag == "label":
            self.labelled.add(given.get("for", ""))
        if tag in {"input", "select", "textarea"}:
            self.inputs.append(given)
            self._field(tag, given)
        if tag == "option" and self._select is not None and self.forms:
            self.forms[-1].fields.setdefault(self._select, "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"</{tag}> inside {self._open[-3:]}")
            return
        self._open.pop()
        if tag == "select":
            self._select = None
        if tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        self.said.append(data)
        if self._area is not None and self.forms:
            self.forms[-1].fields[self._area] += data

    def _field(self, tag: str, given: dict[str, str]) -> None:
        if not self.forms or "name" not in given or "form" not in self._open:
            return
        if tag == "select":
            self._select = given["name"]
        elif tag == "textarea":
            self._area = given["name"]
            self.forms[-1].fields[self._area] = ""
        else:
            self.forms[-1].fields[given["name"]] = given.get("value", "")

    def _check(self, tag: str, given: dict[str, str]) -> None:
        if tag == "style" or "style" in given or any(name.startswith(("on", "hx-on")) for name in given):
            self.faults.append(f"inline: <{tag} {given}>")
        if tag in _SCRIPTS and "/static/" not in given.get("src", ""):
            self.faults.append(f"script: <{tag} {given}>")
        for name in ("href", "src", "action"):
            where = given.get(name, "/")
            if not where.startswith(("/", "#")):
                self.faults.append(f"leads elsewhere: <{tag} {name}={where}>")


def read(text: str) -> Reading:
    """Read a page."""
    return Reading(text)
