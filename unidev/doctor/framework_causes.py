"""GPU and driver work, but the installed build of a framework cannot use them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from unidev.backends.known_frameworks import OUR_PLUGINS, install_command
from unidev.doctor.facts import Finding, Remedy
from unidev.doctor.hardware_causes import lacks_hardware
from unidev.doctor.remedies import install_driver, install_wheel, major
from unidev.system.facts import MAKERS, WORKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.installation import Build
    from unidev.doctor.facts import Case, Framework

_MINOR_VERSIONS = (
    "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
)
_OLDEST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest Linux driver for each major version of CUDA, from the page above."""
_CODE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def frameworks(case: Case) -> Iterator[Finding]:
    """The problems of each framework; or that none is installed."""
    able = [each for each in case.frameworks if each.takes_gpus]
    if not able:
        yield _none(case)
    for each in able:
        if each.state != WORKS:
            yield _broken(each)
        elif each.build is not None:
            yield from _built(case, each, each.build)


def _none(case: Case) -> Finding:
    is_blocking = bool(case.machine.gpus)
    if case.frameworks:
        names = ", ".join(each.framework for each in case.frameworks)
        return Finding(
            "no-framework",
            f"There is no build of {names} with GPU support.",
            tuple(f"backend {each.backend}" for each in case.frameworks),
            (Remedy("Choose a backend whose framework supports GPUs; list them.", "unidev info"),),
            is_blocking=is_blocking,
        )
    text = f"Install one with its plugin, from unidev's repository ({', '.join(OUR_PLUGINS)})."
    return Finding(
        "no-framework",
        "No framework with GPU support is installed with its plugin.",
        ("only NumPy is installed",),
        (Remedy(text, install_command()),),
        is_blocking=is_blocking,
    )


def _broken(framework: Framework) -> Finding:
    return Finding(
        "framework-broken",
        f"{framework.framework} is installed but does not load.",
        tuple(part for part in (framework.problem, *framework.said.splitlines()[-3:]) if part),
        (Remedy("See where it fails.", "unidev info --verbose"),),
        backend=framework.backend,
    )


def _built(case: Case, framework: Framework, build: Build) -> Iterator[Finding]:
    there = list(dict.fromkeys(gpu.accelerator for gpu in case.machine.gpus))
    if build.accelerator is None:
        yield _cpu_only(case, framework, build, there)
    elif there and build.accelerator not in there:
        yield _for_another(case, framework, build, there)
    elif there:
        yield from _driver_too_old(case, framework, build)
        yield from _conflicts(framework, build)
        yield from _missing(framework, build)
        yield from _no_code(case, framework, build)


def _cpu_only(case: Case, framework: Framework, build: Build, there: Sequence[str]) -> Finding:
    evidence = [f"{framework.framework} reports that it was built without an accelerator"]
    if there and not any(each.accelerator in there for each in build.wheels):
        makers = " or ".join(MAKERS[each] for each in there)
        evidence.append(f"there is no known build of {framework.framework} for {makers}")
    on_bus = [each.accelerator for each in case.machine.gpus_on_bus]
    wanted = there or on_bus or [each.accelerator for each in build.wheels[:1]]
    remedy = install_wheel(build, wanted, case.machine.driver("cuda").cuda_version)
    if lacks_hardware(case.machine):
        remedy = replace(remedy, text=f"On a machine with a GPU: {remedy.text}")
    return Finding(
        "cpu-only-wheel",
        f"{_version(framework)} is a CPU-only build.",
        tuple(evidence),
        (remedy,),
        build.page,
        is_blocking=bool(there),
        backend=framework.backend,
    )


def _for_another(case: Case, framework: Framework, build: Build, there: Sequence[str]) -> Finding:
    return Finding(
        "other-wheel",
        f"{_version(framework)} is a build for GPUs of another vendor.",
        (
            f"built for {build.accelerator} {build.version or ''}".rstrip(),
            *(f"this machine has: {gpu.name} ({gpu.accelerator})" for gpu in case.machine.gpus),
        ),
        (install_wheel(build, there, case.machine.driver("cuda").cuda_version),),
        build.page,
        backend=framework.backend,
    )


def _driver_too_old(case: Case, framework: Framework, build: Build) -> Iterator[Finding]:
    driver = case.machine.driver("cuda")
    if build.accelerator != "cuda" or not build.version or not driver.cuda_version:
        return
    wanted, known = major(build.version), major(driver.cuda_version)
    # Before CUDA 11, each minor version required its own driver.
    is_old = wanted > known or (
        wanted == known < 11 and _pair(build.version) > _pair(driver.cuda_version)
    )
    # NVIDIA's forward compatibility packages let some GPUs run a newer CUDA than their driver's.
    if not is_old or framework.gpus_seen:
        return
    oldest = _OLDEST_DRIVER.get(wanted)
    needed = f"{oldest} or newer" if oldest else f"for CUDA {build.version}"
    yield Finding(
        "driver-too-old",
        f"NVIDIA's driver is too old for {_version(framework)}.",
        (
            f"driver {driver.version} supports CUDA up to {driver.cuda_version}",
            f"{framework.framework} uses CUDA {build.version}, which needs driver {needed}",
        ),
        (install_driver(case.machine, "cuda"), _older_wheel(build, driver.cuda_version)),
        _MINOR_VERSIONS,
        backend=framework.backend,
    )


def _older_wheel(build: Build, newest: str) -> Remedy:
    found = install_wheel(build, ["cuda"], newest)
    if found.command is None:
        where = f": {build.page}" if build.page else ""
        return Remedy(f"Or install a build for CUDA {major(newest)}{where}")
    return Remedy(f"Or keep the driver. {found.text}", found.command)


def _conflicts(framework: Framework, build: Build) -> Iterator[Finding]:
    if not build.conflicts:
        return
    commands = dict.fromkeys(each.command for each in build.conflicts)
    yield Finding(
        "parts-conflict",
        f"{_version(framework)} has parts that do not work together.",
        tuple(each.found for each in build.conflicts),
        tuple(Remedy("Install parts that do.", command) for command in commands),
        build.page,
        is_blocking=not framework.gpus_seen,
        backend=framework.backend,
    )


def _missing(framework: Framework, build: Build) -> Iterator[Finding]:
    if not build.missing:
        return
    name = "its accelerator's libraries"
    evidence = [f"{each} was not found" for each in build.missing]
    if any("cudnn" in each for each in build.missing):
        name = "cuDNN"
        if build.cudnn:
            evidence.append(f"{framework.framework} was built with cuDNN {build.cudnn}")
    remedy = Remedy("Install the libraries where the loader finds them.")
    best = [each for each in build.wheels if each.accelerator == build.accelerator]
    if best:
        remedy = Remedy("Reinstall it with its libraries.", best[0].command)
    yield Finding(
        "library-missing",
        f"{_version(framework)} does not find {name}.",
        tuple(evidence),
        (remedy,),
        build.page,
        backend=framework.backend,
    )


def _no_code(case: Case, framework: Framework, build: Build) -> Iterator[Finding]:
    lacking = [
        gpu
        for gpu in case.machine.gpus
        if gpu.accelerator == build.accelerator
        and gpu.architecture
        and not has_code(build.architectures, gpu.architecture)
    ]
    if not lacking or "HSA_OVERRIDE_GFX_VERSION" in case.machine.environment:
        return
    yield Finding(
        "no-code",
        f"{_version(framework)} was not compiled for {lacking[0].name}.",
        (
            *(f"GPU {gpu.index}, {gpu.name}, is {gpu.architecture}" for gpu in lacking),
            f"{framework.framework} was compiled for {', '.join(build.architectures)}",
        ),
        (_with_code(build, lacking[0].architecture or ""),),
        build.page,
        backend=framework.backend,
    )


def _with_code(build: Build, wanted: str) -> Remedy:
    """Newer builds support newer GPUs; older builds support GPUs that have been dropped since."""
    wheels = [each for each in build.wheels if each.accelerator == build.accelerator]
    is_newer = _number(wanted) > max(map(_number, build.architectures), default=0)
    text = f"Install {'a newer' if is_newer else 'an older'} build that supports it."
    return Remedy(text, wheels[0 if is_newer else -1].command if wheels else None)


def _number(architecture: str) -> int:
    return int("".join(filter(str.isdigit, architecture)) or 0)


def has_code(architectures: Sequence[str], wanted: str) -> bool:
    """Whether a build for ``architectures`` runs on a GPU of architecture ``wanted``.

    A cubin runs on the same major version with an equal or higher minor version; PTX is compiled
    for any newer architecture. The suffix ``a`` restricts code to exactly that architecture, ``f``
    to its family.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-capability-compatibility
    """
    if not architectures:
        return True  # unknown
    own = _CODE.fullmatch(wanted)
    if own is None:  # AMD's are compared literally, without features such as :xnack-
        return wanted in {each.partition(":")[0] for each in architectures}
    target = int(own[2]), int(own[3])
    for each in architectures:
        code = _CODE.fullmatch(each)
        if code is None:
            continue
        has = int(code[2]), int(code[3])
        if code[4] == "a":
            runs = has == target
        elif code[1] == "compute" and not code[4]:
            runs = has <= target
        else:
            runs = has[0] == target[0] and has <= target
        if runs:
            return True
    return False


def unexplained(case: Case, found: Sequence[Finding]) -> Iterator[Finding]:
    """A framework sees fewer GPUs than the driver, and no other finding explains it."""
    for each in case.frameworks:
        is_explained = any(
            finding.is_blocking and finding.backend in (None, each.backend) for finding in found
        )
        if is_explained or not each.takes_gpus or each.state != WORKS or each.gpus_seen is None:
            continue
        expected = case.expected(each)
        if each.gpus_seen < expected:
            yield Finding(
                "unexplained",
                f"{_version(each)} sees {each.gpus_seen} of {expected} GPUs, and no check explains "
                "why.",
                tuple(each.said.splitlines()[-5:]) or ("it printed nothing",),
                (Remedy("Its output may contain the reason."),),
                None if each.build is None else each.build.page,
                backend=each.backend,
            )


def _version(framework: Framework) -> str:
    return f"{framework.framework} {framework.version or ''}".rstrip()


def _pair(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
