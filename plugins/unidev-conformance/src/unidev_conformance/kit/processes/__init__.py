"""Processes that checks start: workers, forks, and verbs that run out of memory."""
