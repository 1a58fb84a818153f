"""Steps of several workers: a backward that raises, and what is refused."""

import paddle_steps

import unidev


def found(name):
    work = getattr(paddle_steps, name)
    return unidev.run(work, workers=2, gpus_per_worker=0, backend="paddle")


def test_a_backward_that_raises_is_named_on_the_others_and_all_go_on():
    here, there = found("raising")
    assert here["heard"].startswith("CollectiveError: worker 1 raised an exception in its backward")
    assert "it is enough" in there["heard"]
    assert here["loss"] == there["loss"]


def test_sums_in_narrow_dtypes_are_refused():
    for message in found("refused"):
        assert message.startswith('reduce_dtype="bfloat16" is not supported: paddle\'s engine')
