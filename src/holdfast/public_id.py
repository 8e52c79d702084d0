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
    job_id = _number(digits)
    if _checksum(job_id) != int(checksum):
        message = f"job id: the checksum of {text[:40]!a} does not fit; was it mistyped?"
        raise InvalidValue(message)
    return job_id


def begins(text: str) -> tuple[int, int] | None:
    """Read the first digits of a public id: the lowest and the highest id that begins so; None for other text."""
    compact = text.strip().lower().replace("-", "")
    if not 1 <= len(compact) <= _DIGITS or any(digit not in _VALUES for digit in compact):
        return None
    bits = 5 * (_DIGITS - len(compact))
    first = _number(compact) << bits
    return first, first + (1 << bits) - 1


def ends(text: str) -> tuple[int, int] | None:
    """Read the last digits of a public id, with its checksum: a divisor, and what it leaves of an id that ends so.

    None for other text. Whether the checksum fits is part of what is left: it comes from the remainder by 97.
    """
    digits, _, checksum = text.strip().lower().rpartition("-")
    compact = digits.replace("-", "")
    is_ending = 1 <= len(compact) < _DIGITS and len(checksum) == _LENGTH - _DIGITS and checksum.isascii()
    if not is_ending or not checksum.isdigit() or any(digit not in _VALUES for digit in compact):
        return None
    divisor, rest = 1 << 5 * len(compact), _number(compact)
    for by_97 in range(97):
        if _checksum(by_97) == int(checksum):
            # The one number below 97 * divisor that leaves both remainders.
            return 97 * divisor, rest + divisor * ((by_97 - rest) * pow(divisor, -1, 97) % 97)
    return None


def beginning(lowest: int, highest: int) -> str:
    """Write the first digits that ids of a range share, so that `begins` reads the same range."""
    bits = (highest - lowest).bit_length()
    return encode(lowest).replace("-", "")[: _DIGITS - bits // 5]


def ending(divisor: int, rest: int) -> str:
    """Write the last digits of ids that leave this, with their checksum, so that `ends` reads the same."""
    count = (divisor // 97).bit_length() // 5
    return f"{encode(rest).replace('-', '')[_DIGITS - count : _DIGITS]}-{_checksum(rest):02d}"


def _number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number << 5 | _VALUES[digit]
    return number


def _checksum(job_id: int) -> int:
    return 98 - job_id * 100 % 97
