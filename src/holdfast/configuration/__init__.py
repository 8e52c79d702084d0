"""One file for everything that operators set: read, checked as a whole, laid over what code says.

Reading order: `files` (which file, and what stands in it), `environment` (`${NAME}` and HOLDFAST_...), `values` and
`shapes` (what may stand where), `sections` (the whole form), `checking` (all mistakes at once), `building` (the
definitions that `Holdfast(...)` takes), `configure` (all of it), `written` (the way back), `schema` (for editors).
"""
