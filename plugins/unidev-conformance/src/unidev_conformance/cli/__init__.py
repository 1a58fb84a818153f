"""The command ``unidev conform``."""
