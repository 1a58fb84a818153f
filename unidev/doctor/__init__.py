"""Why is there no GPU, or why is it not used?

``machine`` and ``nvml`` gather facts, ``frameworks`` asks the frameworks in child processes; what
follows from facts is pure: ``*_causes`` makes findings of a :class:`~unidev.doctor.facts.Case`,
``diagnosis`` ranks them, ``document`` and ``text`` tell them.
"""
