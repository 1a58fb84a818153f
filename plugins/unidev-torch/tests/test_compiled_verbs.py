"""``copy_to`` and ``as_in_device`` inside ``torch.compile(fullgraph=True)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fresh_programs import Python

PROGRAM = """
import warnings
import torch, unidev

warnings.simplefilter("default")  # torch's own, while it compiles

gpu = unidev.gpu(1)  # only this loads the backend: no verb has been called yet
native = torch.device("privateuseone:1")
graphs = []

def keep(graph, inputs):
    graphs.append(graph)
    return graph

def check(verb, device):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: verb(x, device) * 2, backend=keep, fullgraph=True)
    target = unidev.as_device(device).native if device != "cpu" else torch.device("cpu")
    transposed = torch.arange(8.0).view(2, 4).T[1:]
    for x in (transposed, torch.ones(2, requires_grad=True)):
        y = compiled(x)
        assert y.device == target, (verb, device, y.device)
        assert y.tolist() == (x * 2).tolist()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert compiled(compiled(x)).device == target

for verb in (unidev.copy_to, unidev.as_in_device):
    for device in ("gpu:1", "cpu", gpu):
        check(verb, device)  # cold
for verb in (unidev.copy_to, unidev.as_in_device):
    verb(torch.ones(3), native)
    check(verb, native)  # warm
assert "clone" in {node.target for graph in graphs for node in graph.graph.nodes}
print("all")
"""


def test_the_verbs_compile_as_one_graph_cold_and_warm(python: Python) -> None:
    done = python(PROGRAM, UNIDEV_SIMULATE="2")
    assert done.stdout == "all\n", done.stderr
