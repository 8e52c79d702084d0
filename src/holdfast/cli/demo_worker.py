"""What `holdfast demo` starts: `holdfast worker`, which never outlives the demo."""

import sys

from holdfast.cli.main import main
from holdfast.worker import kernel

if __name__ == "__main__":
    kernel.die_with(int(sys.argv.pop(1)))
    main()
