"""The verbs of a client, asked of a server over its HTTP API: `link` (requests and errors), `shapes`, `client`."""
