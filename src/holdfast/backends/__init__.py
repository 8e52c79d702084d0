"""Queues behind one small protocol, for programs that do not want to know which one they use.

Reading order: `backend` (the protocol), `jobs` (Holdfast itself), `inline` (in-process, for tests), `arq`.
"""
