"""``python -m unidev_conformance.launching.child CHECK LAUNCHER BACKEND [ADDRESS]``: one check."""

from __future__ import annotations

import sys
import traceback

from unidev_conformance.launching.checks import CHECKS, Subject


def main() -> int:
    """Run the check; its failure is what this process prints."""
    check, *words = sys.argv[1:]
    try:
        CHECKS[check](Subject(*words))
    except AssertionError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except (Exception, KeyboardInterrupt):  # noqa: BLE001  a launcher may raise anything
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
