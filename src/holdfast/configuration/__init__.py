"""One file for everything that operators set: read, checked as a whole, laid over what code says.

Reading order: `files` (which file, and what stands in it), `environment` (`${NAME}` and HOLDFAST_...), `document` (the
sections, each with the settings type that it is read from), `forms` (what such a type allows in a file), `checking`
(all errors at once), `building` (the options that `Holdfast(...)` takes), `configure` (all of it), `showing` (the way
back), `schema` (for editors).
"""
