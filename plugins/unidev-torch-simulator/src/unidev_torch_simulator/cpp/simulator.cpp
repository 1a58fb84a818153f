// Simulated GPUs for PyTorch, in host memory, which answer to `sim` or to `cuda`. Each header has one
// subject; this file joins them to torch's dispatcher.
#include "autocast.h"
#include "distributed.h"
#include "dtypes.h"
#include "engine.h"
#include "fallback.h"
#include "half.h"
#include "layers.h"
#include "linalg.h"
#include "refused.h"

#if UNIDEV_AS_CUDA
#include "cuda.h"
#include "sharing.h"
#endif

#include <torch/library.h>

namespace unidev_sim {
namespace {

void start(int64_t count, int64_t limit) {
  TORCH_CHECK(count >= 1 && count <= kMaxDevices, "expected 1 to 64 devices, got ", count);
  int none = 0;
  TORCH_CHECK(
      device_count.compare_exchange_strong(none, static_cast<int>(count)),
      "this process simulates ", none, " devices already");
  memory_limit = limit;
  hold_locks_over_forks();
  // Not when the library is loaded: from here on torch takes the devices for its accelerator.
  static const c10::impl::DeviceGuardImplRegistrar guard(kSim, new SimGuard());
  c10::SetAllocator(kSim, allocator());
#if UNIDEV_AS_CUDA
  start_cuda();
#else
  at::RegisterPrivateUse1HooksInterface(new SimHooks());
#endif
}

void set_late(int mode) {
  late_mode = mode;
  if (mode == 2) {
    watch_host();
  }
  on_block = [](void* data, size_t size, c10::DeviceIndex device) {
    if (size == 0) {
      return with_late([&](Late& late) { late.freed(data); });
    }
    if (late_mode == 1) {  // else what an earlier block has left could pass for a value
      std::memset(data, unidev_late_poison, size);
    }
    const int64_t line = line_of_call();
    with_late([&](Late& late) { late.allocated(late.current(device), data, size, line); });
  };
  on_stream = [](const void* data, c10::Stream stream) {
    with_late([&](Late& late) {
      late.record_stream(data, late.slot_of(stream.device_index(), stream.id()));
    });
  };
  // After the allocator's own, and so before them at a fork: its locks are taken under this one.
  constexpr auto unlock = [] { Late::get().mutex.unlock(); };
  constexpr auto renew = [] { new (&Late::get().mutex) std::recursive_mutex(); };
  pthread_atfork([] { Late::get().mutex.lock(); }, unlock, renew);
}

// Of each race: its kind; of both sides, the line, the device and the stream; the line of the
// allocation, and how often. And the names of both operators.
std::tuple<std::vector<int64_t>, std::vector<std::string>> late_races() {
  Late& late = Late::get();
  const LateLock lock(late);
  std::vector<int64_t> numbers;
  std::vector<std::string> names;
  for (const Race& race : late.races) {
    numbers.push_back(static_cast<int64_t>(race.kind));
    for (const Launch& side : {race.first, race.second}) {
      const auto [device, stream] = late.name_of(side.slot);
      numbers.insert(numbers.end(), {side.line, device, stream});
      names.emplace_back(side.name);
    }
    numbers.insert(numbers.end(), {race.allocated, race.count});
  }
  return {numbers, names};
}

std::vector<int64_t> memory_stats(int64_t index) {
  Usage& usage = usage_of(static_cast<c10::DeviceIndex>(index));
  std::lock_guard<std::mutex> lock(usage.mutex);
  std::vector<int64_t> found;
  for (const Counter* counter : {&usage.bytes, &usage.requested, &usage.blocks}) {
    found.insert(found.end(), {counter->current, counter->peak, counter->allocated, counter->freed});
  }
  found.push_back(usage.ooms);
  return found;
}

// -1: the current device.
c10::Device device_at(int64_t index) {
  const auto given = static_cast<c10::DeviceIndex>(index);
  return {kSim, checked_index(given < 0 ? current_device : given)};
}

at::Generator generator_of(int64_t index) {
  return default_generator(checked_index(static_cast<c10::DeviceIndex>(index)));
}

bool is_of_aten(const c10::OperatorName& name) {
  return name.name.rfind("aten::", 0) == 0;
}

void answer_no(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, false);
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

} // namespace
} // namespace unidev_sim

using unidev_sim::answer_no;
using unidev_sim::fallback;
using unidev_sim::full_name;
using unidev_sim::is_of_aten;

// Called from Python as torch.ops.unidev_sim.*
TORCH_LIBRARY(unidev_sim, m) {
  m.def("engine_has_started() -> bool", &unidev_sim::EnginePeek::has_started);
  m.def("settle_engine() -> ()", &unidev_sim::settle_engine);
  m.def("start(int count, int memory_limit) -> ()", &unidev_sim::start);
  m.def("lack(ScalarType dtype) -> ()", [](at::ScalarType dtype) {
    unidev_sim::lacking |= uint64_t{1} << static_cast<int>(dtype);
  });
  m.def("device_count() -> int", [] { return int64_t(unidev_sim::device_count.load()); });
  m.def("current_device() -> int", [] { return int64_t(unidev_sim::current_device); });
  m.def("set_device(int index) -> ()", [](int64_t index) {
    unidev_sim::current_device = unidev_sim::checked_index(static_cast<c10::DeviceIndex>(index));
  });
  // Of bytes, of bytes as requested, of blocks: current, peak, allocated, freed; and refusals.
  m.def("memory_stats(int index) -> int[]", &unidev_sim::memory_stats);
  m.def("reset_peak(int index) -> ()", [](int64_t index) {
    unidev_sim::allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(index));
  });
  m.def("reset_accumulated(int index) -> ()", [](int64_t index) {
    unidev_sim::allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(index));
  });
  m.def("memory_info(int index) -> int[]", [](int64_t index) {
    const auto [free, total] = unidev_sim::memory_info(static_cast<c10::DeviceIndex>(index));
    return std::vector<int64_t>{static_cast<int64_t>(free), static_cast<int64_t>(total)};
  });
  m.def("set_memory_fraction(int index, float fraction) -> ()", [](int64_t index, double fraction) {
    unidev_sim::Usage& usage = unidev_sim::usage_of(static_cast<c10::DeviceIndex>(index));
    std::lock_guard<std::mutex> lock(usage.mutex);
    usage.fraction = fraction;
  });
  m.def("memory_fraction(int index) -> float", [](int64_t index) {
    return unidev_sim::usage_of(static_cast<c10::DeviceIndex>(index)).fraction;
  });
  m.def("resize_storage(Tensor holder, int bytes) -> ()", [](const at::Tensor& holder, int64_t bytes) {
    unidev_sim::resize_storage(holder.storage(), static_cast<size_t>(bytes));
  });
  m.def("host_register(int address, int size) -> int", [](int64_t address, int64_t size) {
    at::globalContext().lazyInitDevice(unidev_sim::kSim);  // else nothing is pinned for torch
    const bool is_new = unidev_sim::PinnedAllocator::add(reinterpret_cast<void*>(address), size);
    return is_new ? int64_t{0} : int64_t{712};
  });
  m.def("host_unregister(int address) -> int", [](int64_t address) {
    const bool was_there = unidev_sim::PinnedAllocator::remove(reinterpret_cast<void*>(address));
    return was_there ? int64_t{0} : int64_t{713};
  });
#if UNIDEV_AS_CUDA
  m.def("share(Tensor holder, Tensor host) -> ()", &unidev_sim::share);
  m.def("shared_host(Tensor holder) -> Tensor", &unidev_sim::shared_host);
  m.def("is_received(Tensor holder) -> bool", &unidev_sim::is_received);
  m.def("received(Tensor host, int index) -> Tensor", &unidev_sim::received);
  m.def(
      "can_use_attention(int kernel, Tensor query, Tensor key, Tensor value, Tensor? mask, "
      "float dropout, bool is_causal, bool enable_gqa, bool debug) -> bool",
      [](int64_t kernel, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
         const std::optional<at::Tensor>& mask, double dropout, bool is_causal, bool enable_gqa,
         bool debug) {
        const sdp::sdp_params params{query, key, value, mask, dropout, is_causal, enable_gqa};
        const bool is_flash = kernel == static_cast<int64_t>(sdp::SDPBackend::flash_attention);
        return is_flash ? unidev_sim::can_use_flash(params, debug)
                        : unidev_sim::can_use_efficient(params, debug);
      });
#endif
  m.def("default_generator(int index) -> Generator?", [](int64_t index) {
    return std::make_optional(unidev_sim::generator_of(index));
  });
  m.def("current_stream(int index) -> int", [](int64_t index) {
    return int64_t(unidev_sim::SimGuard().getStream(unidev_sim::device_at(index)).id());
  });
  m.def("elapsed_time(int start, int end) -> float", [](int64_t start, int64_t end) {
    return unidev_sim::SimGuard().elapsedTime(
        reinterpret_cast<void*>(start), reinterpret_cast<void*>(end), 0);
  });
  m.def("synchronize(int index) -> ()", [](int64_t index) {
    unidev_sim::SimGuard().synchronizeDevice(unidev_sim::device_at(index).index());
  });
  m.def("sync_debug_mode() -> int", [] { return unidev_sim::sync_debug_mode.load(); });
  m.def("set_sync_debug_mode(int mode) -> ()", [](int64_t mode) { unidev_sim::sync_debug_mode = mode; });
  m.def("late_races() -> (int[], str[])", &unidev_sim::late_races);
  m.def("late_quiet(int more) -> ()", [](int64_t more) { unidev_sim::Late::quiet += more; });
  m.def(
      "late_begin(Tensor[] read, Tensor[] written, int index, bool is_async, str name) -> int",
      [](const std::vector<at::Tensor>& read, const std::vector<at::Tensor>& written, int64_t index,
         bool is_async, const std::string& name) {
        static auto* names = new std::unordered_set<std::string>();  // a launch keeps a pointer
        const int64_t line = unidev_sim::line_of_call();
        return unidev_sim::with_late([&](unidev_sim::Late& late) {
          return late.begin_collective(
              read, written, static_cast<int>(index), is_async, names->insert(name).first->c_str(), line);
        });
      });
  m.def("late_end(int number) -> ()", [](int64_t number) {
    unidev_sim::with_late([&](unidev_sim::Late& late) { late.end_collective(number); });
  });
  m.def("late_wait(int number, int index) -> ()", [](int64_t number, int64_t index) {
    unidev_sim::with_late(
        [&](unidev_sim::Late& late) { late.wait_for_collective(number, static_cast<int>(index)); });
  });
  m.def("late_forget(int number) -> ()", [](int64_t number) {
    unidev_sim::with_late([&](unidev_sim::Late& late) { late.forget_collective(number); });
  });
  m.def("late_host_reads(Tensor tensor) -> ()", [](const at::Tensor& tensor) {
    unidev_sim::host_uses(tensor, false, "read");
  });
  m.def("set_stream(int index, int stream) -> ()", [](int64_t index, int64_t stream) {
    unidev_sim::SimGuard().exchangeStream(
        c10::Stream(c10::Stream::UNSAFE, unidev_sim::device_at(index), stream));
  });
  // Returns what it was: whether products and convolutions of a dtype are computed in float32.
  m.def("exchange_is_slow(ScalarType dtype, bool value) -> bool", [](at::ScalarType dtype, bool value) {
    return unidev_sim::is_slow(dtype).exchange(value);
  });
  m.def("seed(int index, int value) -> ()", [](int64_t index, int64_t value) {
    at::Generator generator = unidev_sim::generator_of(index);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(static_cast<uint64_t>(value));
  });
  m.def("initial_seed(int index) -> int", [](int64_t index) {
    return static_cast<int64_t>(unidev_sim::generator_of(index).current_seed());
  });
  m.def("rng_state(int index) -> Tensor", [](int64_t index) {
    return unidev_sim::generator_of(index).get_state();
  });
  m.def("set_rng_state(int index, Tensor state) -> ()", [](int64_t index, const at::Tensor& state) {
    unidev_sim::generator_of(index).set_state(state);
  });
}

TORCH_LIBRARY_IMPL(_, UNIDEV_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, UNIDEV_KEY, m) {
  m.impl("empty.memory_format", &unidev_sim::empty);
  m.impl("empty_strided", &unidev_sim::empty_strided);
  m.impl("_efficientzerotensor", &unidev_sim::efficient_zero);
  // torch's own would call a kernel of CUDA's.
  m.impl("copy_", &unidev_sim::copy);
  m.impl("_copy_from", &unidev_sim::copy_from);
  m.impl("_copy_from_and_resize", &unidev_sim::copy_from_and_resize);
  m.impl("_local_scalar_dense", &unidev_sim::local_scalar_dense);
  m.impl("resize_", &unidev_sim::resize);
  m.impl("set_.source_Storage_storage_offset", &unidev_sim::set_storage);
  m.impl("set_", &unidev_sim::set_nothing);
  m.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, c10::Storage)>(&at::native::set_));
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("record_stream", &unidev_sim::record_stream);
  m.impl("_has_compatible_shallow_copy_type", &unidev_sim::has_compatible_shallow_copy_type);

  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);

  // Else torch would decompose a convolution as for backends with their own kernels, and call
  // convolution_overrideable.
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<
             &unidev_sim::convolution<&unidev_sim::by_float32<unidev_sim::Lacking::speed>>>());
  m.impl("convolution_backward", UNIDEV_ON_HOST(by_float32<unidev_sim::Lacking::speed>));

  m.impl(
      "_index_put_impl_", torch::CppFunction::makeFromBoxedFunction<&unidev_sim::index_put>());
  for (const char* name : {"native_layer_norm", "native_layer_norm_backward"}) {
    m.impl(name, UNIDEV_ON_HOST(layer_norm));
  }
  m.impl("native_group_norm", UNIDEV_ON_HOST(group_norm));

  // Composite, and calls a kernel for the device of its own (2.13).
  m.impl("conj_physical_", torch::CppFunction::makeFromBoxedFunction<&fallback>());

  for (const char* name : {"masked_fill_.Scalar", "masked_fill_.Tensor"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&unidev_sim::masked_fill>());
  }

  // torch asks them of tensors on CUDA without asking whether it was compiled with these libraries.
  for (const char* question :
       {"_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss",
        "_use_miopen_ctc_loss.Tensor"}) {
    m.impl(question, torch::CppFunction::makeFromBoxedFunction<&answer_no>());
  }

  m.impl(
      "_nested_view_from_buffer",
      torch::CppFunction::makeFromBoxedFunction<
          &unidev_sim::call_as_composed<c10::DispatchKey::CPU>>());
  m.impl(
      "_nested_from_padded",
      torch::CppFunction::makeFromBoxedFunction<&unidev_sim::nested_of_padded>());

  UNIDEV_REFUSE_SCALED(m)
#if UNIDEV_AS_CUDA
  m.impl("_fused_sdp_choice", &unidev_sim::choice_of_attention);
  m.impl("linalg_lstsq.out", UNIDEV_ON_HOST(least_squares));
  for (const char* name : {"_linalg_svd", "_linalg_svd.U"}) {
    m.impl(name, UNIDEV_ON_HOST(singular_values));
  }
  for (const char* name : {"linalg_lu_factor_ex", "linalg_lu_factor_ex.out"}) {
    m.impl(name, UNIDEV_ON_HOST(lu_factor));
  }
  for (const char* name : {"linalg_lu", "linalg_lu.out"}) {
    m.impl(name, UNIDEV_ON_HOST(lu));
  }
#endif
  m.impl("histc", &unidev_sim::histc);
  m.impl("native_dropout", UNIDEV_FORMULA(native_dropout));

  for (const char* name : {"_softmax", "_log_softmax"}) {
    m.impl(name, UNIDEV_ON_HOST(softmax));
  }
  for (const char* name : {"_softmax_backward_data", "_log_softmax_backward_data"}) {
    m.impl(name, UNIDEV_ON_HOST(softmax_backward));
  }

  m.impl("_thnn_fused_lstm_cell", UNIDEV_FORMULA(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", UNIDEV_FORMULA(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", UNIDEV_FORMULA(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", UNIDEV_FORMULA(gru_cell_backward));

  // The CPU's own kernel, where torch would take another one for other devices: a composite one, which
  // rounds differently; or the out= variant, for which it sizes the result itself, warns where the
  // CPU's kernel then resizes it (mse_loss), and checks devices by an internal assertion.
  using Key = c10::DispatchKey;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !is_of_aten(name) || op->hasKernelForDispatchKey(unidev_sim::kKey)) {
      continue;
    }
    const auto by_float32 = unidev_sim::by_float32_of(name.name);
    if (by_float32 != nullptr && op->hasKernelForDispatchKey(Key::CPU)) {
      m.impl(full_name(name).c_str(), by_float32());
      continue;
    }
    if (by_float32 != nullptr && name.overload_name.rfind("dtype", 0) == 0) {
      m.impl(full_name(name).c_str(), UNIDEV_ON_HOST(product_in_dtype));
      continue;
    }
    const bool is_composite = op->hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(Key::CompositeImplicitAutograd);
    if (op->hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional) ||
        (is_composite && op->hasKernelForDispatchKey(Key::CPU))) {
      m.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
  }
}

// Where torch has a kernel for the CPU's tensors of a layout; without one its own error says so, as
// on CUDA.
template <c10::DispatchKey key>
void add_layout(torch::Library& m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (op && is_of_aten(name) && op->hasKernelForDispatchKey(key)) {
      m.impl(
          full_name(name).c_str(),
          torch::CppFunction::makeFromBoxedFunction<&unidev_sim::fallback_for<key>>());
    }
  }
}

TORCH_LIBRARY_IMPL(aten, UNIDEV_SPARSE_KEY, m) {
  add_layout<c10::DispatchKey::SparseCPU>(m);
}
TORCH_LIBRARY_IMPL(aten, UNIDEV_COMPRESSED_KEY, m) {
  add_layout<c10::DispatchKey::SparseCsrCPU>(m);
}
TORCH_LIBRARY_IMPL(aten, UNIDEV_NESTED_KEY, m) {
  add_layout<c10::DispatchKey::NestedTensorCPU>(m);
}

// A kernel of ours for the device switches off torch's composite kernel for its autograd key, too, as
// of torch 2.9.0.
TORCH_LIBRARY_IMPL(aten, UNIDEV_AUTOGRAD_KEY, m) {
  m.impl("_has_compatible_shallow_copy_type", &unidev_sim::has_compatible_shallow_copy_type);
}

// torch resolves a conjugated or negated argument by cloning it, and clones by _copy_from: an endless
// recursion, unless _copy_from handles these bits itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

extern "C" void unidev_set_late(int mode) {
  unidev_sim::set_late(mode);
}
extern "C" void unidev_set_late_line(int64_t (*line)()) {
  unidev_sim::late_line = line;
}
// For a process that is about to end: a status in place of 0, where the system tells.
extern "C" void unidev_end_with(int status) {
  static int kept = status;
#ifdef __GLIBC__
  on_exit([](int own, void*) { own == 0 ? _exit(kept) : void(); }, nullptr);
#else
  std::atexit([] { _exit(kept); });
#endif
}

#if UNIDEV_AS_CUDA
// Called while torch is being imported, when torch.ops is not there yet.
extern "C" void unidev_start(int count, int64_t memory_limit) {
  unidev_sim::start(count, memory_limit);
}
// As many devices as CUDA_VISIBLE_DEVICES leaves, which CUDA reads when it is first used.
extern "C" void unidev_set_device_count(int count) {
  unidev_sim::device_count = count;
}
extern "C" void unidev_set_capability(int capability) {
  unidev_sim::capability = capability;
}
extern "C" void unidev_set_used() {
  unidev_sim::is_used = true;
}
extern "C" bool unidev_is_forked() {
  return unidev_sim::is_forked;
}
#endif
