"""The installed PaddlePaddle: the accelerator that it was built for, and other builds."""

from __future__ import annotations

import platform

import paddle
from paddle.base import core

from unidev.contract import Build, Installation, Wheel

PAGE = "https://www.paddlepaddle.org.cn/en/install/quick"


class PaddleInstallation(Installation):
    """From ``paddle.version``."""

    def build(self) -> Build:
        """A build for XPU is for Baidu's Kunlun, which no other framework calls by that name."""
        accelerator, version = _compiled_for()
        return Build(
            accelerator=accelerator,
            version=version,
            architectures=_architectures() if accelerator == "cuda" else (),
            cudnn=_said(paddle.version.cudnn()) if accelerator == "cuda" else None,
            wheels=tuple(_wheels()),
            page=PAGE,
        )


def _compiled_for() -> tuple[str | None, str | None]:
    if core.is_compiled_with_rocm():
        return "rocm", _said(getattr(paddle.version, "hip_version", None))
    if core.is_compiled_with_cuda():
        return "cuda", _said(paddle.version.cuda())
    if core.is_compiled_with_xpu():
        return "kunlun", _said(paddle.version.xpu())
    return None, None


def _said(version: object) -> str | None:
    return None if version in (None, "", "False", "0", False) else str(version)


def _architectures() -> tuple[str, ...]:
    # Since 3.0. Numbers, such as 86; strings in some builds.
    found = getattr(paddle.version, "compiled_cuda_archs", None) or ()
    return tuple(f"sm_{each}" for each in found)


def _wheels() -> list[Wheel]:
    if platform.system() not in ("Linux", "Windows"):
        return []
    # The two distributions overwrite each other's files.
    command = (
        "pip uninstall -y paddlepaddle && pip install "
        f"paddlepaddle-gpu=={paddle.version.full_version} "
        "-i https://www.paddlepaddle.org.cn/packages/stable/cu126/"
    )
    return [Wheel("cuda", "12.6", command)]
