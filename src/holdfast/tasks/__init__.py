"""What people write and register: functions and pipelines, their options and their typed arguments.

Reading order: `options` (what may be set), `signature` (arguments as JSON and back), `call` (a request as a value),
`task` and `pipeline` (what `@app.task` makes), `registry` (kind to task), `decorator` (`@app.task` itself).
"""
