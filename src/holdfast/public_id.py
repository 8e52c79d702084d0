"""Job ids as people see them: `htcx-2s16-z48b-09`.

An id has 60 bits: 12 tell the store apart, 48 come from its sequence. The public form is Crockford's
base32 of those bits, padded to twelve digits, and a two-digit ISO 7064 mod 97-10 checksum, in groups of four.
Reading forgives case, missing hyphens and the letters that look like digits.
"""

from holdfast.errors import InvalidValue

TAG_BITS, SEQUENCE_BITS = 12, 48
LARGEST = (1 << (TAG_BITS + SEQUENCE_BITS)) - 1

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_DIGITS = 12
_LENGTH = _DIGITS + 2
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)} | {"o": 0, "i": 1, "l": 1}


def encode(job_id: int) -> str:
    """Write an id in its public form."""
    if not 0 <= job_id <= LARGEST:
        message = f"job id: expected a number of 60 bits, got {job_id}"
        raise InvalidValue(message)
    a, b, c, d, e, f = (_PAIRS[job_id >> shift & 1023] for shift in (50, 40, 30, 20, 10, 0))
    return f"{a}{b}-{c}{d}-{e}{f}-{_checksum(job_id):02d}"


def decode(text: str) -> int:
    """Read a public id; a wrong digit or two swapped ones are refused."""
    compact = text.strip().lower().replace("-", "")
    digits, checksum = compact[:_DIGITS], compact[_DIGITS:]
    well_formed = len(compact) == _LENGTH and checksum.isascii() and checksum.isdigit()
    if not well_formed or any(digit not in _VALUES for digit in digits):
        message = f"job id: expected a form like htcx-2s16-z48b-09, got {text[:40]!a}"
        raise InvalidValue(message)
    job_id = 0
    for digit in digits:
        job_id = job_id << 5 | _VALUES[digit]
    if _checksum(job_id) != int(checksum):
        message = f"job id: the checksum of {text[:40]!a} does not fit; was it mistyped?"
        raise InvalidValue(message)
    return job_id


def _checksum(job_id: int) -> int:
    return 98 - job_id * 100 % 97
