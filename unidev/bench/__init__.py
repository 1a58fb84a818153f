"""``unidev bench``: what this machine's devices are worth, on one framework.

``subjects`` says what is measured, ``running`` measures it, ``results`` is plain data, and what is
made of that (findings, table, plots, files) are pure functions, tested with given numbers.
"""
