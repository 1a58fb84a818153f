"""A launcher over ``subprocess``: an agent has the workers, as one would that ``ssh`` starts.

Written from the page ``docs/writing-a-launcher.md`` and ``unidev.contract`` alone.
"""

import os
import pickle
import subprocess
import sys
from contextlib import ExitStack, suppress

from unidev.contract import (
    Ended,
    Event,
    Launcher,
    LauncherSpec,
    WorkerHost,
    free_ports,
    hookimpl,
    own_folder,
)


@hookimpl
def unidev_register_launcher():
    return LauncherSpec(name="agent", contract_version=3, load=f"{__name__}:Agent")


class Agent(Launcher):
    def __init__(self, size, address):
        super().__init__(size, address)
        self.scope = ExitStack()
        self.agent = None
        self.running = set(range(size))

    def place(self, gpus):
        self.hosts = ("127.0.0.1",) * self.size
        self.agent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process, which calls `end`
        )  # fmt: skip

    def free_ports(self, counts):
        return free_ports(counts)

    def shared_folder(self):
        return self.scope.enter_context(own_folder())

    def start(self, jobs, helpers):
        self.ask("start", jobs, helpers)

    def send(self, rank, frame):
        self.ask("send", rank, frame)

    def events(self, timeout_s):
        found = self.ask("events", timeout_s)
        if found is None:  # the agent is gone, and a guard ends its workers
            found = [Event(rank, Ended(-9, "its agent has ended")) for rank in self.running]
        self.running -= {each.rank for each in found if isinstance(each.news, Ended)}
        return found

    def hindrance(self, rank):
        return self.ask("hindrance", rank)

    def stack_of(self, rank):
        return self.ask("stack_of", rank) or ""

    def end(self):
        if self.agent is not None:
            with suppress(BrokenPipeError):
                self.agent.stdin.close()  # upon which it ends what it has
            self.agent.wait()
            self.agent.stdout.close()
        self.scope.close()

    def ask(self, *request):
        """Have the agent call a method of its ``WorkerHost``; None if it is gone."""
        try:
            pickle.dump(request, self.agent.stdin)
            self.agent.stdin.flush()
            answer = pickle.load(self.agent.stdout)
        except (BrokenPipeError, EOFError):
            return None
        if isinstance(answer, OSError):
            raise answer
        return answer


def serve(requests, replies):
    """The agent: has the workers until ``requests`` ends, with the process that called ``run``."""
    host = WorkerHost()
    try:
        while True:
            name, *arguments = pickle.load(requests)
            try:
                answer = getattr(host, name)(*arguments)
            except OSError as error:  # such as too many open files
                answer = error
            pickle.dump(answer, replies)
            replies.flush()
    finally:
        host.end()


if __name__ == "__main__":
    with suppress(EOFError, BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
