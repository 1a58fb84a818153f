"""Judging: from outcomes and abilities to a verdict."""
