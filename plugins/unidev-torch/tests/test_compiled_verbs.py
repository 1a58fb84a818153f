"""unidev's functions inside ``torch.compile``: what it follows, and what it leaves to Python."""

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


STEP = """
import inspect, sys
import torch, unidev

def loss_of(pair, x):
    return ((pair["w"] @ x) ** 2).sum()

def step(w, x):
    loss, gradients = unidev.value_and_grad(loss_of)({"w": w}, x)
    return loss, unidev.sgd({"w": w}, gradients, lr=0.5)

step(torch.ones(1, 2), torch.ones(2, 1))  # imports what differentiates
compiled = torch.compile(step, backend="eager")
for start in (1.0, 2.0):
    loss, new = compiled(torch.full((1, 2), start), torch.ones(2, 1))
    assert (loss.item(), new["w"].tolist()) == ((2 * start) ** 2, [[-start, -start]])

def pieces(function):
    return len(torch._C._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__))

ours = [
    function
    for name in ("models.gradients", "tensors.kinds", "tensors.contents", "tensors.hidden_tensors",
                 "tensors.taking_apart", "tensors.containers", "contract.autograd")
    for function in vars(sys.modules[f"unidev.{name}"]).values()
    if inspect.isfunction(function) and function.__module__ == f"unidev.{name}"
]
print(pieces(loss_of), pieces(step) > 0, len(ours) > 40, {pieces(each) for each in ours})
"""


def test_of_a_step_the_users_own_functions_are_compiled_and_unidevs_are_not(
    warm_python: Python,
) -> None:
    done = warm_python(STEP, UNIDEV_BACKEND="torch")
    assert done.stdout == "1 True True {0}\n", done.stdout + done.stderr
