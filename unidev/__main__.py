"""The program ``unidev``, also as ``python -m unidev``."""

from __future__ import annotations

import sys

from unidev.system.extras import lack


def main() -> None:
    """Run the command line, or say which libraries it lacks."""
    reason = lack("cli")
    if reason is not None:
        sys.exit(f"unidev: the command line cannot run: {reason}")
    from unidev.cli import main as run

    run()


if __name__ == "__main__":
    main()
