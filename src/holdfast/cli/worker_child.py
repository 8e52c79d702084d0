"""What a worker process runs: started by `holdfast worker`, never by people."""

import socket
import sys

from holdfast.cli.exits import Refusal
from holdfast.cli.locate import Spelled, imported_app
from holdfast.worker import child, kernel
from holdfast.worker.child import Unloadable
from holdfast.worker.orders import Start
from holdfast.worker.parts import Parts


def _load(start: Start) -> Parts:
    try:
        return imported_app(Spelled(start.source, start.app, start.folder)).parts
    except Refusal as refused:
        raise Unloadable(refused.message, refused.detail) from refused


def main() -> None:
    """Serve the supervisor at the other end of the socket."""
    end, supervisor = int(sys.argv[1]), int(sys.argv[2])
    kernel.die_with(supervisor)
    line = socket.socket(fileno=end)
    line.set_inheritable(False)  # or what a handler starts would hold the line open
    child.serve(line, _load)


if __name__ == "__main__":
    main()
