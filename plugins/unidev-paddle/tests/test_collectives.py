"""Results of a reduction can be written to by Paddle's own operations in place."""

import paddle
import pytest

import unidev


def trees_on(devices):
    return [
        [paddle.to_tensor([[1.0, 2.0]], place=d.native), paddle.to_tensor([3.0], place=d.native)]
        for d in devices
    ]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_write_to_one_result_is_not_seen_in_another(kind):
    devices = [unidev.cpu()] * 2 if kind == "cpu" else unidev.try_all_gpus()[:2]
    for made in (
        unidev.all_reduce(trees_on(devices)),
        unidev.broadcast(trees_on(devices)[0], devices),
    ):
        first = unidev.to_numpy(made[1][0]).tolist()
        paddle._C_ops.assign_out_(paddle._C_ops.scale(made[1][1], 0.0, 7.0, True), made[1][1])
        assert unidev.to_numpy(made[1][1]).tolist() == [7]
        assert unidev.to_numpy(made[1][0]).tolist() == first
        unidev.sgd(made[0], [paddle.ones_like(x) for x in made[0]], lr=1.0)
        assert unidev.to_numpy(made[1][0]).tolist() == first


def test_parameters_stay_parameters_in_place():
    nets = []
    for device in unidev.try_all_gpus()[:2]:
        net = paddle.nn.Linear(2, 2)
        nets.append(unidev.place(net, device))
    trees = [unidev.parameters(net) for net in nets]
    mean = [unidev.to_numpy(tree["weight"]) for tree in trees]
    assert unidev.all_reduce(trees, "mean", in_place=True) is trees
    for net, device in zip(nets, unidev.try_all_gpus(), strict=False):
        assert unidev.device_of(net) is device
        assert not net.weight.stop_gradient
        found = unidev.to_numpy(net.weight)
        assert abs(found - (mean[0] + mean[1]) / 2).max() < 1e-6
