"""How workers learn of new jobs: hints only, for the store alone is the truth.

Reading order: `delivery` (the two verbs), `in_store` (hints by way of the store itself).
"""
