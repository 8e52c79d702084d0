"""Commands that are imported when they are asked for, so that none waits for the modules of the others."""

import importlib
from collections.abc import Iterator, MutableMapping, Sequence

import click


class Commands(MutableMapping[str, click.Command]):
    """Commands by name; each stands in a module, under its own name unless another follows a colon."""

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self._package = package
        self._places: dict[str, str] = {place.rpartition(":")[2]: place for place in names}
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Import a command, the first time it is asked for."""
        if name not in self._found:
            module = self._places[name].partition(":")[0]
            found: click.Command = getattr(importlib.import_module(f"{self._package}.{module}"), name.replace("-", "_"))
            self._found[name] = found
        return self._found[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command that is here already."""
        self._places.setdefault(name, name)
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        """Leave a command out."""
        del self._places[name]
        self._found.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """Go through the names in their order."""
        return iter(self._places)

    def __len__(self) -> int:
        """Count the commands."""
        return len(self._places)
