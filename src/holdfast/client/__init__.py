"""Asking for work: enqueue, look, wait, cancel, retry.

Reading order: `repeat` (asking until there is an answer), `ids`, `hints`, `batch`, `enqueue`, `transactional`, `jobs`,
`queues`, `waiting`, `client` (which joins them), `blocking` (the same without an event loop).
"""
