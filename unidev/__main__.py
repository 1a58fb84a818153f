"""``python -m unidev``: the same as ``unidev``."""

from unidev.cli import main

if __name__ == "__main__":
    main()
