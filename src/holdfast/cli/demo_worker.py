"""What `holdfast demo`, `bench` and `dev` start: a command of `holdfast`, which never outlives them."""

import sys

from holdfast.cli.main import main
from holdfast.worker import kernel

if __name__ == "__main__":
    kernel.die_with(int(sys.argv.pop(1)))
    main()
