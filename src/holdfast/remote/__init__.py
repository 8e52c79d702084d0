"""The verbs of a client, asked of a server over its HTTP API.

Reading order: `link` (requests and errors), `namespace` (what the resources share), a file per resource, `client`.
"""
