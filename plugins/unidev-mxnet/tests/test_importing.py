"""What selecting the backend does to the process."""

import pytest

PROGRAMS = {
    "registering imports neither mxnet nor numpy": (
        "import sys, unidev\n"
        "assert 'mxnet' in unidev.list_backends()\n"
        "assert 'mxnet' not in sys.modules and 'numpy' not in sys.modules"
    ),
    "nothing of numpy changes but bool and no log handler is left": (
        "import logging, warnings, numpy as np\n"
        "names = lambda: {n: v for n, v in vars(np).items() if not isinstance(v, type(np))}\n"
        "before, filters = names(), list(warnings.filters)\n"
        "import unidev\n"
        "x = unidev.zeros((), device='cpu')\n"
        "unidev.copy_to(x, 'cpu')\n"
        "now = names()\n"  # submodules come by being imported
        "changed = {n for n in before.keys() | now.keys() if before.get(n) is not now.get(n)}\n"
        "assert changed <= {'bool'}, changed\n"
        "assert np.bool is np.bool_\n"
        "assert warnings.filters == filters\n"
        "assert not logging.root.handlers, logging.root.handlers\n"
    ),
    "conditions work as index afterwards": (
        "import unidev\n"
        "x = unidev.array([1.0, 3.0])\n"
        "x[x > 2] = 0\n"
        "assert unidev.to_numpy(x).tolist() == [1, 0]\n"
    ),
    "numpy 2 is refused with the version that works": (
        "import sys, types, unidev, numpy\n"
        "numpy.__version__ = '2.4.1'\n"
        "try:\n"
        "    unidev.cpu()\n"
        "except unidev.PluginError as error:\n"
        "    assert 'numpy==1.26.4' in str(error) and '2.4.1' in str(error), error\n"
        "    assert 'mxnet' not in sys.modules\n"
        "else:\n"
        "    raise SystemExit('not refused')\n"
    ),
    "a mxnet that is imported already is taken as it is": (
        "import warnings, numpy as np\n"
        "np.bool = np.bool_\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')\n"
        "    import mxnet as mx\n"
        "del np.bool\n"
        "import unidev\n"
        "assert str(unidev.device_of(mx.np.ones(2))) == 'cpu:0'\n"
        "assert np.bool is np.bool_\n"
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_selecting_does(python, program):
    done = python(program)
    assert done.returncode == 0, done.stderr
