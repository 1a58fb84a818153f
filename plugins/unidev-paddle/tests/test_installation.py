from __future__ import annotations

from unidev.backends.loading import load_backend


def built(monkeypatch, **reported):
    """What is said of a Paddle that was built so."""
    backend = load_backend("paddle")
    import paddle
    from paddle.base import core

    for name in ("cuda", "rocm", "xpu"):
        monkeypatch.setattr(core, f"is_compiled_with_{name}", lambda name=name: name in reported)
        if name in reported:
            monkeypatch.setattr(
                paddle.version, name, lambda name=name: reported[name], raising=False
            )
    monkeypatch.setattr(paddle.version, "compiled_cuda_archs", reported.get("archs"), raising=False)
    monkeypatch.setattr(paddle.version, "cudnn", lambda: reported.get("cudnn", "False"))
    return backend.installation.build()


def test_a_build_for_the_cpu_is_told_as_such_with_the_published_command(monkeypatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    build = built(monkeypatch)
    assert (build.accelerator, build.version, build.cudnn) == (None, None, None)
    import paddle

    assert f"paddlepaddle-gpu=={paddle.version.full_version} " in build.wheels[0].command


def test_a_build_for_cuda_tells_its_versions_and_code(monkeypatch) -> None:
    build = built(monkeypatch, cuda="12.6", cudnn="9.5.1", archs=[70, "80", 90])
    assert (build.accelerator, build.version, build.cudnn) == ("cuda", "12.6", "9.5.1")
    assert build.architectures == ("sm_70", "sm_80", "sm_90")


def test_a_paddle_that_does_not_know_its_architectures_tells_none(monkeypatch) -> None:
    assert built(monkeypatch, cuda="11.8").architectures == ()
