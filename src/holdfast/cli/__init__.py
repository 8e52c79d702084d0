"""The command line: `holdfast`, or the same commands under a program's own name.

Reading order: `exits` (errors and exit codes), `output` and `ages` (what people and pipes see), `shapes` (what `--json`
prints), `grammar` (program, nouns, verbs), `locate` and `connect` (which app, which store), then one file per noun.
"""

from holdfast.cli.main import command, main

__all__ = ["command", "main"]
