"""Registers the backend. Imports nothing that costs."""

import unidev


def _load() -> type[unidev.Backend]:
    from minimal_backend.backend import MinimalBackend

    return MinimalBackend


@unidev.hookimpl
def unidev_register_backend() -> unidev.BackendSpec:
    return unidev.BackendSpec(
        name="minimal",
        contract_version=1,
        framework="minimal_backend",
        install="pip install ./examples/minimal_backend",
        load=_load,
    )
