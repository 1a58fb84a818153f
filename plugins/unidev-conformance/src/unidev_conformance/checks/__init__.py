"""The checks: a folder per profile, a file per group, functions that receive a ``Workbench``.

Each assertion says by itself what is wrong, and pytest does not rewrite it: where the variable
``CI`` is set, it would compare two values that differ in full, the bytes of tensors for hours.
"""
