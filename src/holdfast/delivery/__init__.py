"""How workers learn of new jobs: hints only, for the store alone is the truth.

Reading order: `delivery` (the verbs), `in_store` (hints by way of the store itself), `redis` and `arq` (ids by way of
another server), `choosing` (which of them an app has).
"""
