"""Why is there no GPU, or why is it not used?

``examination`` gathers the facts, and queries the frameworks in child processes. The rest are pure
functions of these facts: ``*_causes`` derive findings from a
:class:`~unidev.doctor.facts.Case`, ``diagnosis`` ranks them, ``document`` and ``text`` report them.
"""
