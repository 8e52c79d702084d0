"""What `holdfast bench` does: it measures Holdfast on a database and machine of the user's, and checks every run.

Reading order: `plan` (what is measured), `place` (where, with `on_sqlite` and `on_postgres`), `app` and `ledger` (the
jobs, and the record of their runs), `crew` and `usage` (the worker), `measures` (one function for each), `course` (the
rounds), `audit` (whether every job ran exactly once), `report` and `figure` (what comes out).
"""
