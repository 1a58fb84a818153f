"""The version of unidev."""

__version__ = "0.1.0"
