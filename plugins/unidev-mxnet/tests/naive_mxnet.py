"""What MXNet's own calls make of "copy"."""

from mutants.naive import NaiveBackend

import unidev_mxnet


def _within_numpy_semantics(call):
    def copy(x, device):
        import mxnet as mx  # the plugin has imported it: it takes some help

        with mx.util.np_shape(True), mx.util.np_array(True):
            return call(x, device.native)

    return copy


as_in_ctx = NaiveBackend(
    "as_in_ctx", unidev_mxnet, _within_numpy_semantics(lambda x, context: x.as_in_ctx(context))
)
copy = NaiveBackend("copy", unidev_mxnet, _within_numpy_semantics(lambda x, context: x.copy()))
copyto = NaiveBackend(
    "copyto", unidev_mxnet, _within_numpy_semantics(lambda x, context: x.copyto(context))
)
