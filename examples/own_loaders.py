"""The loader that each framework has of its own, for arrays of images and labels.

``train_digits.py`` reads its batches from these, ahead of the step that uses them, by
``unidev.prefetch``. All give the same batches in the same order.
"""

import numpy as np


def torch_loader(images, labels, order, size):
    """A ``torch.utils.data.DataLoader``, which collates tensors."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    return DataLoader(data, batch_size=size, sampler=order.tolist())


def tensorflow_loader(images, labels, order, size):
    """A ``tf.data.Dataset``."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((images[order], labels[order])).batch(size)


def paddle_loader(images, labels, order, size):
    """A ``paddle.io.DataLoader``, which collates NumPy's arrays into tensors."""
    from paddle.io import DataLoader, Dataset

    class Digits(Dataset):
        def __len__(self):
            return len(order)

        def __getitem__(self, index):
            return images[order[index]], labels[order[index]]

    return DataLoader(Digits(), batch_size=size, return_list=True)


def mxnet_loader(images, labels, order, size):
    """A ``gluon.data.DataLoader``."""
    import mxnet as mx
    from mxnet.gluon.data import ArrayDataset, DataLoader

    mx.util.set_np()  # batches of mx.np, as unidev's tensors on MXNet
    return DataLoader(ArrayDataset(images[order], labels[order]), batch_size=size)


def numpy_loader(images, labels, order, size):
    """A generator: NumPy and JAX have no loader."""
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield images[chosen], labels[chosen]


LOADERS = {
    "torch": torch_loader,
    "tensorflow": tensorflow_loader,
    "paddle": paddle_loader,
    "mxnet": mxnet_loader,
}


def loader_of(backend, data, seed, size):
    """The framework's own loader of ``data``, in an order drawn with ``seed``; each image once."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    return LOADERS.get(backend, numpy_loader)(images, labels, order, size)
