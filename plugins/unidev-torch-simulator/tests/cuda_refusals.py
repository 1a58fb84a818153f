"""Programs that need more of CUDA than simulated GPUs have, and what each of them is told.

Run as a program it asks each in a fork of a process in which torch has been imported; stdout has a
line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback

X = "x = torch.ones(3, device='cuda')\n"
GLOO = (
    "import tempfile, torch.distributed as d\n"
    "file = 'file://' + tempfile.mktemp()\n"
    "d.init_process_group('gloo', init_method=file, rank=0, world_size=1)\n"
)
VISIBLE = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = '{}'
def seen():
    count = torch.cuda.device_count()
    return [torch.cuda.get_device_properties(index).pci_bus_id for index in range(count)]
"""
REFUSED = {
    "inductor": (X + "torch.compile(lambda a: a * 2)(x)", "`unidev simulate --compile eager`"),
    "inductor_moves": ("torch.compile(lambda a: (a * 2).cuda())(torch.ones(3))", "TorchInductor"),
    "inductor_backward": (
        "torch.compile(torch.nn.Linear(2, 2).cuda())(torch.ones(1, 2, device='cuda'))",
        "backend='aot_eager'",
    ),
    "cudagraphs": (X + "torch.compile(lambda a: a * 2, backend='cudagraphs')(x)", "no _CUDAGraph"),
    "extension": (
        "from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('a', ['a.cu'])",
        "no CUDAExtension: kernels that nvcc compiles",
    ),
    "load_inline": (
        "from torch.utils.cpp_extension import load_inline\n"
        "load_inline('a', cpp_sources='', cuda_sources='int f() { return 1; }', functions=['f'])",
        "no extensions with sources for CUDA",
    ),
    "load_files": (
        "from torch.utils.cpp_extension import load\nload('a', ['a.cu'])",
        "no extensions with sources for CUDA",
    ),
    "nvrtc": ("torch.cuda._compile_kernel('__global__ void f() {}', 'f')", "no NVRTC"),
    "jiterator": (
        X
        + "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) { return x; }')(x)",
        "they compile no kernels",
    ),
    "graph": ("torch.cuda.CUDAGraph()", "they record no graphs of kernels"),
    "pool": ("torch.cuda.MemPool()", "no pools"),
    "raw_allocation": ("torch.cuda.caching_allocator_alloc(10)", "no pools"),
    "history": ("torch.cuda.memory._record_memory_history()", "keeps no history"),
    "snapshot": ("torch.cuda.memory._snapshot()", "keeps no history"),
    "dlpack": (X + "x.__dlpack__()", "as a pointer of CUDA"),
    "to_dlpack": (X + "torch.utils.dlpack.to_dlpack(x)", "as a pointer of CUDA"),
    "from_dlpack": (X + "torch.from_dlpack(x)", "as a pointer of CUDA"),
    "array_interface": (X + "x.__cuda_array_interface__", "as a pointer of CUDA"),
    "event_ipc": ("torch.cuda.Event(interprocess=True)", "share no events"),
    "external_stream": ("torch.cuda.ExternalStream(1234)", "no external streams"),
    "utilization": ("torch.cuda.utilization()", "no NVML"),
    "processes": ("torch.cuda.list_gpu_processes()", "no NVML"),
    "float8_product": (
        "a = torch.ones(16, 16, device='cuda').to(torch.float8_e4m3fn)\n"
        "one = torch.ones((), device='cuda')\ntorch._scaled_mm(a, a.t(), one, one)",
        "no products of scaled float8",
    ),
    "transform_of_half": (
        "torch.fft.rfft(torch.ones(6, device='cuda').half())",
        "powers of two when computing in half precision",
    ),
    "blas_handle": ("torch.cuda.current_blas_handle()", "CUDA's own libraries"),
    "fft_plans": ("torch.backends.cuda.cufft_plan_cache.max_size = 10", "no cuFFT"),
    "tuning": ("torch.cuda.tunable.is_enabled()", "nothing to tune"),
}
"""By name: a program, and words of its error."""

RIGHT = {
    "indices_in_torchscript": (
        "def pick(x, j): return x[j]\n"
        "x, j = torch.arange(3., device='cuda'), torch.tensor([2, 0], device='cuda')\n"
        "scripted = torch.jit.CompilationUnit('def pick(x, j: Tensor):\\n  return x[j]\\n').pick\n"
        "for call in (scripted, torch.jit.trace(pick, (x, j))):\n"
        "    assert call(x, j).tolist() == call(x, j.cpu()).tolist() == [2, 0]\n"
        "    try: call(x, j.to('cuda:1'))\n"
        "    except RuntimeError as e: assert 'as the indexed tensor (cuda:0)' in str(e), e\n"
        "    else: raise AssertionError"
    ),
    "nvtx_of_autograd": X + "with torch.autograd.profiler.emit_nvtx(): x * 2",
    "eager": X + "assert torch.compile(lambda a: a * 2, backend='eager')(x).tolist() == [2, 2, 2]",
    "aot_eager": (
        "net = torch.nn.Linear(2, 2).cuda()\n"
        "compiled = torch.compile(net, backend='aot_eager')\n"
        "compiled(torch.ones(1, 2, device='cuda')).sum().backward()\n"
        "assert net.weight.grad.tolist() == [[1, 1], [1, 1]]"
    ),
    "inductor_on_the_cpu": "assert torch.compile(lambda a: a * 2)(torch.ones(1)).item() == 2",
    "exported": (
        "net, x = torch.nn.Linear(2, 2).cuda(), torch.ones(1, 2, device='cuda')\n"
        "assert torch.equal(torch.export.export(net, (x,)).module()(x), net(x))"
    ),
    "profiler": (
        "from torch.profiler import ProfilerActivity as A, profile\n"
        + X
        + "with profile(activities=[A.CPU, A.CUDA], profile_memory=True) as p: y = x * 2\n"
        "assert {e.key: e.self_device_memory_usage for e in p.key_averages()}['aten::mul'] == 512"
    ),
    "cuda_profiler_and_ranges": (
        "with torch.cuda.profiler.profile(), torch.cuda.nvtx.range('a'): torch.cuda.nvtx.mark('b')"
    ),
    "cudnn": (
        "c = torch.backends.cudnn\nc.benchmark = c.deterministic = True\n"
        "assert not c.is_available() and c.version() is None\n"
        "x = torch.ones(1, 1, 2, 2, device='cuda')\n"
        "with c.flags(enabled=False): torch.nn.Conv2d(1, 1, 1).cuda()(x)"
    ),
    "settings": (
        "b = torch.backends.cuda\nb.matmul.allow_tf32 = True\nassert b.is_built()\n"
        "torch.set_float32_matmul_precision('high')\nb.cufft_plan_cache.clear()\n"
        "assert b.cufft_plan_cache.size == 0\nb.preferred_linalg_library()\n"
        "with b.sdp_kernel(enable_flash=False): pass\nb.enable_mem_efficient_sdp(False)"
    ),
    "algorithms_in_no_order_are_refused": (
        "import warnings\nF = torch.nn.functional\nx = torch.ones(1, 2, 3, 3, device='cuda')\n"
        "i, t = torch.zeros(3, dtype=torch.long, device='cuda'), torch.ones(3, device='cuda')\n"
        "def backward(f): f(x.clone().requires_grad_()).sum().backward()\n"
        "sample = lambda y: F.grid_sample(y, x.permute(0, 2, 3, 1), align_corners=False)\n"
        "alike = lambda how: F.nll_loss(x, i[:1].expand(1, 3, 3), reduction=how)\n"
        "calls = {\n"
        "    '_bincount_cuda': (lambda: torch.bincount(i, t), lambda: torch.bincount(i)),\n"
        "    '_histc_cuda with': (lambda: t.histc(), lambda: i.int().histc()),\n"
        "    'upsample_bicubic2d_backward_out_cuda': (\n"
        "        lambda: backward(lambda y: F.interpolate(y, 6, mode='bicubic')),\n"
        "        lambda: F.interpolate(x, 6, mode='bicubic')),\n"
        "    'grid_sampler_2d_backward_cuda': (lambda: backward(sample), lambda: sample(x)),\n"
        "    'nll_loss2d_forward_out_cuda_template': (\n"
        "        lambda: alike('mean'), lambda: alike('none')),\n"
        "    'scatter_reduce_cuda_prod_': (\n"
        "        lambda: t.scatter_reduce(0, i, t, 'prod'),\n"
        "        lambda: t.scatter_reduce(0, i, t, 'sum'))}\n"
        "for name, (call, other) in calls.items():\n"
        "    torch.use_deterministic_algorithms(True)\n    other()\n"
        "    try: call()\n"
        "    except RuntimeError as e: assert str(e).startswith(name), e\n"
        "    else: raise AssertionError(name)\n"
        "    torch.use_deterministic_algorithms(True, warn_only=True)\n"
        "    with warnings.catch_warnings(record=True) as said:\n"
        "        warnings.simplefilter('always')\n        call()\n"
        "    assert any(str(each.message).startswith(name) for each in said)"
    ),
    "attention_is_chosen_as_by_cuda": (
        "from torch.backends.cuda import *\n"
        "from torch.nn.attention import SDPBackend as B, sdpa_kernel\n"
        "attend = torch.nn.functional.scaled_dot_product_attention\n"
        "def can(q, mask=None):\n"
        "    params = SDPAParams(q, q, q, mask, 0.0, False, False)\n"
        "    return can_use_flash_attention(params), can_use_efficient_attention(params)\n"
        "q = torch.ones(1, 2, 16, 8, device='cuda')\nmask = torch.zeros(16, 16, device='cuda')\n"
        "assert can(q.half()) == (True, True) and can(q.half()[..., :7]) == (True, False)\n"
        "assert can(q) == can(q.half(), mask.half()) == (False, True)\n"
        "assert can(q.double()) == (False, False) and is_flash_attention_available()\n"
        "chosen = torch._fused_sdp_choice\n"
        "assert chosen(q.half(), q.half(), q.half()) == 1 and chosen(q, q, q) == 2\n"
        "with sdpa_kernel(B.FLASH_ATTENTION):\n"
        "    attend(q.half(), q.half(), q.half())\n"
        "    try: attend(q, q, q)\n"
        "    except RuntimeError as e: assert 'No available kernel. Aborting' in str(e)\n"
        "    else: raise AssertionError\n"
        "parts = [torch.randn(n, 2, 8) for n in (3, 5)]\n"
        "def jagged(d): return torch.nested.nested_tensor(parts, layout=torch.jagged, device=d)\n"
        "x, y = (attend(*[jagged(d).transpose(1, 2)] * 3) for d in ('cuda', 'cpu'))\n"
        "for a, b in zip(x.unbind(), y.unbind()): torch.testing.assert_close(a.cpu(), b)"
    ),
    "streams_have_priorities": (
        "c = torch.cuda\nmany = [c.Stream() for _ in range(70)]\n"
        "assert c.Stream.priority_range() == (0, -3)\n"
        "assert [c.Stream(priority=p).priority for p in (1, 0, -1, -9)] == [0, 0, -1, -3]\n"
        "assert len({each.cuda_stream for each in many}) == 32\n"
        "assert {c.default_stream(i).cuda_stream for i in (None, 0, 3)} == {0}\n"
        "with c.stream(c.Stream(priority=-2)): assert c.current_stream().priority == -2"
    ),
    "memory_of_the_host_is_registered": (
        "x, r = torch.ones(9), torch.cuda.cudart()\n"
        "def add(): return r.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\n"
        "assert (add(), x[2:].is_pinned(), add()) == (0, True, 712)\n"
        "def drop(): return r.cudaHostUnregister(x.data_ptr())\n"
        "assert (drop(), x.is_pinned(), drop()) == (0, False, 713)\n"
        "assert r.cudaGetErrorString(r.cudaError(2)) == 'out of memory'\n"
        "try: r.cudaGetErrorString(2)\nexcept TypeError: pass\nelse: raise AssertionError"
    ),
    "environment": (
        "from torch.utils import collect_env\n"
        "assert 'Is CUDA available: True' in collect_env.get_pretty_env_info()"
    ),
    "build": (
        "assert 'sm_90' in torch.cuda.get_arch_list()\n"
        "assert 'code=sm_90' in torch.cuda.get_gencode_flags()\n"
        "assert torch.cuda.is_bf16_supported()"
    ),
    "types": (
        "x = torch.ones(3).type(torch.cuda.FloatTensor)\n"
        "assert x.type() == 'torch.cuda.FloatTensor' and isinstance(x, torch.cuda.FloatTensor)\n"
        "assert x.type('torch.cuda.HalfTensor').dtype == torch.half"
    ),
    "legacy_types": (
        "f = torch.cuda.FloatTensor\n"
        "assert f([1, 2]).tolist() == [1, 2] and f(2, 3).shape == f(torch.Size([2, 3])).shape\n"
        "for each in torch._tensor_classes:\n"
        "    if each.is_cuda and not each.is_sparse:\n"
        "        x = each([1, 0])\n"
        "        assert x.type() == f'torch.cuda.{each.__name__}' and isinstance(x, each)\n"
        "x = torch.ones(2, device='cuda:1')\n"
        "assert f(2, device='cuda:1').device == x.device and f(x).data_ptr() == x.data_ptr()\n"
        "for wrong in (torch.ones(2), x.double(), 2.5):\n"
        "    try: f(wrong)\n"
        "    except TypeError: continue\n"
        "    assert False"
    ),
    "default_tensor_type": (
        "for kind in ('torch.cuda.FloatTensor', torch.cuda.DoubleTensor, torch.FloatTensor):\n"
        "    torch.set_default_tensor_type(kind)\n"
        "    made = torch.ones(1), torch.tensor([0.5]), torch.Tensor(1)\n"
        "    is_cuda = kind is not torch.FloatTensor\n"
        "    dtype = torch.double if kind is torch.cuda.DoubleTensor else torch.float\n"
        "    assert all(x.is_cuda == is_cuda and x.dtype == dtype for x in made)\n"
        "assert torch.cuda.DoubleTensor.is_cuda\n"
        "try: torch.set_default_tensor_type(torch.cuda.LongTensor)\n"
        "except TypeError: pass"
    ),
    "complex32_and_nansum": (
        "x = torch.tensor([3 + 4j, complex(float('nan'), 1)], device='cuda')\n"
        "assert x.nansum() == 3 + 4j and x.to(torch.complex32).nansum() == 3 + 4j\n"
        "half = torch.ones(2, device='cuda').half()\n"
        "assert (half / 2j).tolist() == [-0.5j] * 2 and (half / 2j).dtype == torch.complex32\n"
        "assert torch.sum(x[:1], dtype=torch.complex32).dtype == torch.complex32\n"
        "assert x[:1].conj_physical_().tolist() == [3 - 4j]"
    ),
    "products_in_another_dtype": (
        "x = torch.full((2, 2), 181.0, device='cuda').half()\n"
        "assert (x @ x).isinf().all() and torch.mm(x, x, out_dtype=torch.float).max() == 65522\n"
        "try: torch.mm(x, x, out_dtype=torch.double)\n"
        "except RuntimeError as e: assert 'out_dtype must be' in str(e)"
    ),
    "gloo": (
        GLOO + X + "y = torch.zeros_like(x)\nd.broadcast(x, 0)\nd.all_gather([y], x)\n"
        "d.all_reduce(x)\nd.reduce_scatter_tensor(x, y)\n"
        "assert x.tolist() == y.tolist() == [1, 1, 1]"
    ),
    "gloo_ddp": (
        GLOO + "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())\n"
        "net(torch.ones(1, 2, device='cuda')).sum().backward()"
    ),
    "default_backend": GLOO.replace("'gloo', ", "") + X + "d.all_reduce(x)",
    "visible_in_order": VISIBLE.format("1,0") + "assert seen() == [1, 0]",
    "visible_until_a_wrong_one": VISIBLE.format("0,9,1") + "assert seen() == [0]",
    "visible_by_uuid": (
        "from unidev_torch_simulator.cuda.devices import uuid_of\n"
        + VISIBLE.replace("'{}'", "f'GPU-{uuid_of(3)}'")
        + "assert seen() == [3]"
    ),
    "waiting": (
        "s, e = torch.cuda.Stream(), torch.cuda.Event()\ne.record()\ne.wait(s)\ns.wait_event(e)\n"
        "s.wait_stream(torch.cuda.current_stream())\nassert s.query() and e.query()"
    ),
    "reserved": (
        X + "assert torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved() == 512\n"
        "assert torch.cuda.memory_stats()['requested_bytes.all.current'] == 12"
    ),
    "memory_summary": X + "assert 'PyTorch CUDA memory summary' in torch.cuda.memory_summary()",
    "record_stream": X + "x.record_stream(torch.cuda.Stream())\nx.to('cpu', non_blocking=True)",
    "freeing": "torch.cuda.empty_cache()\ntorch.cuda.ipc_collect()\ntorch.cuda.synchronize()",
}
"""Programs beside them that run as on a GPU."""


def said_by(program: str) -> str:
    """What ran: nothing, or the class and message of an error."""
    import torch

    try:
        exec(program, {"torch": torch, "__name__": "__main__"})  # the table's own
    except AssertionError:
        return traceback.format_exc()
    except Exception as error:  # noqa: BLE001  reported
        return f"{type(error).__name__}: {error}"
    return ""


def in_a_fork(program: str) -> str:
    """``said_by`` in a copy of this process, or how that ended."""
    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        signal.alarm(400)
        os.write(theirs, f"said:{said_by(program)}".encode()[:4000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said.removeprefix("said:") if said else f"the process ended with {status}"


if __name__ == "__main__":
    import unidev  # noqa: F401  before torch, which looks for CUDA while it is imported

    importlib.import_module("torch._inductor.compile_fx")  # once, not in each fork

    for name in sys.argv[1:]:
        program = RIGHT.get(name) or REFUSED[name][0]
        sys.stdout.write(json.dumps([name, in_a_fork(program)]) + "\n")
        sys.stdout.flush()  # the next fork would have it, too
