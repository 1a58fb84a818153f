"""Registers the backend; the framework is imported when it is first needed."""

import unidev


@unidev.hookimpl
def unidev_register_backend() -> unidev.BackendSpec:
    return unidev.BackendSpec(
        name="minimal",
        contract_version=3,
        framework="minimal_backend",
        install="pip install ./examples/minimal_backend",
        load="minimal_backend.backend:MinimalBackend",
    )
