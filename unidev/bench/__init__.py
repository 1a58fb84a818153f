"""``unidev bench``: what this machine's devices are worth, on one framework.

``tasks`` defines what is measured, ``running`` measures it and ``results`` holds the data.
Findings, table, plots and files are pure functions of it, tested with made-up numbers.
"""
