"""What operators see of jobs while they run: numbers for Prometheus, spans for OpenTelemetry, lines of a log.

Reading order: `metrics` (the names), `meter` (counting), `exposition` and `endpoint` (showing), `tracing`, `redaction`
and `logs`. Nothing here touches a store, and nothing here is imported from a library unless somebody asks for it.
"""
