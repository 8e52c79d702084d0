"""Webhooks by the rules of Standard Webhooks: where one may go, how it is signed, when it is tried again."""
