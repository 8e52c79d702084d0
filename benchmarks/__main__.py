"""`python -m benchmarks`: make the environment of the harness itself, and go on inside it."""

import os
import sys

from benchmarks import environments


def main() -> None:
    """Hand over to the program, in an interpreter that has what the program needs."""
    try:
        python = str(environments.install(environments.HARNESS))
    except environments.NotInstalled as error:
        sys.exit(str(error))
    os.chdir(environments.ROOT)
    os.execv(python, [python, "-m", "benchmarks.program", *sys.argv[1:]])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
