"""unidev's plugin for pytest: ``devices`` and ``guard``.

pytest loads it in every run of an environment that has unidev, also where no test uses unidev. So
it stands beside the package ``unidev``, not in it, imports only pytest, and imports unidev when a
test, a fixture or an option needs it.
"""

# `terminal` before all: it keeps the stderr that pytest starts with.
pytest_plugins = (
    "unidev_pytest.terminal",
    "unidev_pytest.devices",
    "unidev_pytest.guard",
)
