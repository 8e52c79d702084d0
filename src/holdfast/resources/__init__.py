"""What people and programs see: one public type for each noun, with a sentence and an example for each field.

The client returns these types, locally and over HTTP. The HTTP API answers with them, `--json` prints them, the OpenAPI
document and the reference pages are generated from them.
"""
