"""What selecting the backend does to the process."""


def test_registering_imports_neither_mxnet_nor_numpy(python):
    done = python(
        "import sys, unidev\n"
        "assert 'mxnet' in unidev.list_backends()\n"
        "assert 'mxnet' not in sys.modules and 'numpy' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr


def test_nothing_of_numpy_changes_but_bool_and_no_log_handler_is_left(python):
    done = python(
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
    )
    assert done.returncode == 0, done.stderr


def test_conditions_work_as_index_afterwards(python):
    done = python(
        "import unidev\n"
        "x = unidev.array([1.0, 3.0])\n"
        "x[x > 2] = 0\n"
        "assert unidev.to_numpy(x).tolist() == [1, 0]\n"
    )
    assert done.returncode == 0, done.stderr


def test_numpy_2_is_refused_with_the_version_that_works(python):
    done = python(
        "import sys, types, unidev, numpy\n"
        "numpy.__version__ = '2.4.1'\n"
        "try:\n"
        "    unidev.cpu()\n"
        "except unidev.PluginError as error:\n"
        "    assert 'numpy==1.26.4' in str(error) and '2.4.1' in str(error), error\n"
        "    assert 'mxnet' not in sys.modules\n"
        "else:\n"
        "    raise SystemExit('not refused')\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_mxnet_that_is_imported_already_is_taken_as_it_is(python):
    done = python(
        "import warnings, numpy as np\n"
        "np.bool = np.bool_\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')\n"
        "    import mxnet as mx\n"
        "del np.bool\n"
        "import unidev\n"
        "assert str(unidev.device_of(mx.np.ones(2))) == 'cpu:0'\n"
        "assert np.bool is np.bool_\n"
    )
    assert done.returncode == 0, done.stderr
