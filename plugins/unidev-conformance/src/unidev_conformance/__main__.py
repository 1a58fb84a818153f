"""``python -m unidev_conformance`` is ``unidev conform``, also where the suite is not installed."""

import sys

from unidev.cli import cli, main
from unidev_conformance.cli.conform import command

if __name__ == "__main__":
    cli.add_command(command)
    main(["conform", *sys.argv[1:]])
