"""The part of the suite that judges launchers: ``unidev conform --launcher NAME``."""
