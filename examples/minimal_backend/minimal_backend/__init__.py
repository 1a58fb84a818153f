"""Registers the backend; the framework is imported when it is first needed."""

from importlib import import_module

import unidev


@unidev.hookimpl
def unidev_register_backend() -> unidev.BackendSpec:
    return unidev.BackendSpec(
        name="minimal",
        contract_version=1,
        framework="minimal_backend",
        install="pip install ./examples/minimal_backend",
        load=lambda: import_module("minimal_backend.backend").MinimalBackend,
    )
