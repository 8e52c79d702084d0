"""Secrets that let people in: made of 32 random bytes, shown once, kept as a digest."""

import hashlib
import secrets

PREFIX = "hf_"  # by which scanners of code and logs know one
_BYTES = 32
_HINT = 4


def new_secret() -> str:
    """Make a secret."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def digest_of(secret: str) -> str:
    """What is kept of a secret: with 32 random bytes in it, a plain digest can be neither guessed nor tabled."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def hint_of(secret: str) -> str:
    """The end of a secret, by which its owner knows it again."""
    return secret[-_HINT:]
