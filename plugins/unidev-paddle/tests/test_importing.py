from __future__ import annotations


def test_the_linkers_flags_are_as_they_were(run_python):
    done = run_python(
        """
        import os, sys, types
        sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # as if it were there
        before = sys.getdlopenflags()
        during = []
        import importlib
        real = importlib.import_module
        def import_module(name):
            if name == "paddle":
                during.append(sys.getdlopenflags())
            return real(name)
        importlib.import_module = import_module
        import unidev_paddle.importing as importing
        importing.import_paddle()
        print(during[0] == before | os.RTLD_DEEPBIND, sys.getdlopenflags() == before)
        """
    )
    assert done.stdout == "True True\n", done.stderr
