"""Registers the backend; the framework is imported when it is first needed."""

import unidev


@unidev.hookimpl
def unidev_register_backend() -> unidev.BackendSpec:
    return unidev.BackendSpec(
        name="toy",
        contract_version=3,
        framework="toy_backend",
        install="pip install ./examples/toy_backend",
        load="toy_backend.backend:ToyBackend",
    )
