// All other operations: check the devices, and run torch's CPU kernel on the devices' own memory.
#pragma once

#include "device_check.h"
#include "layouts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty_strided.h>

#include <cstring>
#include <vector>

namespace unidev_sim {

inline bool is_generator(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

inline void use_cpu_generator(
    const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Device device) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = stack[begin + i];
    if (value.isGenerator()) {
      value = cpu_generator_of(value.toGenerator());
    } else if (value.isNone() && is_generator(arguments[i])) {
      value = cpu_generator_of(default_generator(device.index()));
    }
  }
}

// A result of a CPU kernel whose memory becomes the device's: counted there, freed as the CPU's.
struct Adopted {
  c10::Storage storage;
  size_t size;
  c10::DeviceIndex device;

  static void release(void* context) {
    auto* adopted = static_cast<Adopted*>(context);
    give_back(adopted->size, adopted->device);
    report_memory(adopted->storage.mutable_data(), -rounded(adopted->size), adopted->device);
    if (C10_UNLIKELY(on_block != nullptr)) {
      on_block(adopted->storage.mutable_data(), 0, 0);
    }
    delete adopted;
  }
};

// A kernel may leave its result conjugated or negated by a bit (linalg.lu_solve, left=False).
inline void keep_signs(const at::Tensor& sim, const at::Tensor& cpu) {
  if (sim.is_conj() != cpu.is_conj()) {
    sim._set_conj(cpu.is_conj());
  }
  if (sim.is_neg() != cpu.is_neg()) {
    sim._set_neg(cpu.is_neg());
  }
}

inline bool can_adopt(const c10::Storage& cpu) {
  return cpu.nbytes() > 0 && cpu.use_count() == 1 && cpu.allocator() != nullptr;
}

inline c10::Storage adopt_storage(const c10::Storage& cpu, c10::Device device) {
  const size_t size = cpu.nbytes();
  take(size, device.index());
  report_memory(cpu.mutable_data(), rounded(size), device.index());
  auto* adopted = new Adopted{cpu, size, device.index()};
  c10::DataPtr data(adopted->storage.mutable_data(), adopted, &Adopted::release, device);
  return {
      c10::Storage::use_byte_size_t(), size, std::move(data), allocator(), /*resizable=*/true};
}

inline at::Tensor adopt(at::Tensor cpu, c10::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !cpu.is_quantized() && !cpu.is_mkldnn(), "a simulated GPU holds no ",
      cpu.is_quantized() ? "quantized" : "oneDNN", " tensors, and this result is one");
  checked_dtype(cpu.scalar_type());
  if (!can_adopt(cpu.storage())) {
    if (at::has_internal_overlap(cpu) != at::MemOverlap::No) {
      cpu = cpu.contiguous();
    }
    at::Tensor result =
        at::empty_strided(cpu.sizes(), cpu.strides(), cpu.options().device(device));
    if (cpu.numel() > 0) {
      on_host(result).copy_(cpu);
    }
    return result;
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      adopt_storage(cpu.storage(), device), kSimKeys, cpu.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(cpu.storage_offset());
  impl->set_sizes_and_strides(cpu.sizes(), cpu.strides());
  keep_signs(result, cpu);
  return result;
}

inline at::Tensor adopt_nested(const at::Tensor& cpu, c10::Device device) {
  if (can_adopt(cpu.storage())) {
    return nested_in(cpu, adopt_storage(cpu.storage(), device));
  }
  c10::Storage own(
      c10::Storage::use_byte_size_t(), cpu.storage().nbytes(),
      allocator()->allocate(cpu.storage().nbytes()), allocator(), /*resizable=*/true);
  if (own.nbytes() > 0) {
    std::memcpy(own.mutable_data(), cpu.storage().data(), own.nbytes());
  }
  return nested_in(cpu, std::move(own));
}

using CpuKernel = void (*)(const c10::OperatorHandle&, torch::jit::Stack*);

template <c10::DispatchKey key>
void torchs_own_for(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  try {
    op.redispatchBoxed(c10::DispatchKeySet(key), stack);
  } catch (const c10::NotImplementedError&) {
    if (op.hasComputedKernelForDispatchKey(key)) {
      throw;
    }
    C10_THROW_ERROR(
        NotImplementedError,
        c10::str(
            "GPUs simulated by unidev compute with PyTorch's kernels for the CPU, which has none of ",
            op.schema().operator_name()));
  }
}

inline void torchs_own(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torchs_own_for<c10::DispatchKey::CPU>(op, stack);
}

// One call of a CPU kernel, which gets each simulated tensor as a CPU tensor on the same memory.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device)
      : op_(op), stack_(stack), device_(device) {}

  void run(CpuKernel kernel) {
    lend_arguments();
    if (C10_UNLIKELY(sync_debug_mode.load(std::memory_order_relaxed) != 0) && is_waiting()) {
      host_waits();
    }
    if (Late::is_on()) {
      enter();
    }
    try {
      kernel(op_, stack_);
    } catch (const c10::NotImplementedError&) {
      throw;
    } catch (const c10::Error& error) {
      // By its words: the CPU's allocator raises no class of its own (2.13). A result that not even
      // the host has room for is one that the GPU has no room for.
      constexpr const char* words = "you tried to allocate ";
      const char* said = error.what_without_backtrace();
      const char* number = std::strstr(said, words);
      if (number == nullptr || std::strstr(said, "DefaultCPUAllocator") == nullptr) {
        throw;
      }
      refuse_memory_of_host(std::strtoll(number + std::strlen(words), nullptr, 10), device_.index());
    }
    for (const Loan& loan : loans_) {
      settle(loan);
    }
    own_results();
    if (C10_UNLIKELY(late_.has_value())) {
      leave();
    }
  }

 private:
  // Before the kernel runs, where devices are late.
  void enter() {
    const int64_t line = line_of_call();
    Late& late = Late::get();
    const LateLock lock(late);
    const uint32_t slot = late.current(device_.index());
    late_.emplace(late.launch(slot, op_.schema().name().c_str(), line));
    if (is_waiting()) {
      late.synchronize(slot);
    }
    for (const Loan& loan : loans_) {
      if (has_memory(loan.sim)) {
        const void* base = loan.sim.storage().data();
        const auto [is_written, is_read] = use_of(loan.cpu);
        if (is_written) {
          late.write(*late_, base, bytes_of(loan.sim), is_read);
        } else {
          late.read(*late_, base, bytes_of(loan.sim), false);
        }
      }
    }
  }

  bool is_waiting() const {
    return unidev_sim::is_waiting(op_, *stack_, [&](const at::Tensor& tensor) {
      return std::any_of(loans_.begin(), loans_.end(), [&](const Loan& loan) { return loan.cpu.is_same(tensor); });
    });
  }

  // Whether the kernel writes a tensor, and reads it, too: not what is given as out= alone, or filled.
  std::pair<bool, bool> use_of(const at::Tensor& cpu) const {
    const auto& arguments = op_.schema().arguments();
    const size_t begin = stack_->size() - arguments.size();
    bool is_written = false, is_read = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = arguments[i].alias_info();
      see_tensors(arguments[i], (*stack_)[begin + i], [&](const at::Tensor& tensor, bool) {
        if (tensor.is_same(cpu)) {
          const bool writes = alias != nullptr && alias->isWrite();
          is_written = is_written || writes;
          is_read = is_read || !(arguments[i].is_out() || (writes && only_writes(op_.schema().name())));
        }
      });
    }
    return {is_written, is_read};
  }

  void leave() {
    Late& late = Late::get();
    const LateLock lock(late);
    for (auto value = stack_->end() - op_.schema().returns().size(); value != stack_->end(); ++value) {
      if (value->isTensor()) {
        is_born(late, value->toTensor());
      } else if (value->isTensorList()) {
        for (const at::Tensor& tensor : value->toTensorVector()) {
          is_born(late, tensor);
        }
      }
    }
    late.end(*late_);
  }

  void is_born(Late& late, const at::Tensor& tensor) {
    if (std::any_of(loans_.begin(), loans_.end(), [&](const Loan& loan) { return loan.sim.is_same(tensor); })) {
      return;
    }
    if (tensor.defined() && is_sparse(tensor) && tensor.device().type() == kSim) {
      for (const at::Tensor& part : parts_of(tensor)) {
        is_born(late, part);
      }
    } else if (has_memory(tensor)) {
      const c10::Storage& storage = tensor.storage();
      late.born(*late_, storage.data(), bytes_of(tensor), storage.nbytes());
    }
  }

  struct Loan {
    at::Tensor sim, cpu;
  };
  struct Memory {
    const c10::StorageImpl* sim;
    c10::Storage cpu;
  };

  void lend_arguments() {
    const auto& arguments = op_.schema().arguments();
    const size_t begin = stack_->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = (*stack_)[begin + i];
      if (value.isTensor()) {
        value = lend(value.toTensor());
      } else if (value.isList()) {
        lend_elements(value);
      } else if (value.isDevice() && value.toDevice().type() == kSim) {
        value = c10::Device(c10::kCPU);
      }
    }
  }

  // A new list of the same type: what it holds stays the caller's.
  void lend_elements(c10::IValue& value) {
    const c10::ArrayRef<c10::IValue> given = value.toListRef();
    if (std::none_of(given.begin(), given.end(), [](const auto& each) { return each.isTensor(); })) {
      return;
    }
    c10::impl::GenericList lent(value.toList().elementType());
    lent.reserve(given.size());
    for (const c10::IValue& each : given) {
      lent.push_back(each.isTensor() ? c10::IValue(lend(each.toTensor())) : each);
    }
    value = std::move(lent);
  }

  at::Tensor lend(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kSim) {
      return tensor;
    }
    for (const Loan& loan : loans_) {
      if (loan.sim.is_same(tensor)) {
        return loan.cpu;  // mul_.Scalar arrives as mul.out(x, s, out=x)
      }
    }
    at::Tensor cpu = is_sparse(tensor) ? lend_sparse(tensor)
        : tensor.is_nested()           ? nested_in(tensor, memory_of(tensor))
        : tensor._is_zerotensor()      ? on_host(tensor)
                                       : view_on_host(tensor, memory_of(tensor));
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    loans_.push_back({tensor, cpu});
    return cpu;
  }

  at::Tensor lend_sparse(const at::Tensor& tensor) {
    std::vector<at::Tensor> parts = parts_of(tensor);
    for (at::Tensor& part : parts) {
      part = lend(part);
    }
    at::Tensor cpu = composed(tensor, parts, c10::Device(c10::kCPU));
    // By it sparse.mm with amax decides whether to note what its backward reads (2.13).
    cpu.set_requires_grad(at::GradMode::is_enabled() && cpu.is_floating_point());
    return cpu;
  }

  // One for each storage, so that the kernel sees where its arguments overlap.
  c10::Storage memory_of(const at::Tensor& tensor) {
    const c10::StorageImpl* sim = tensor.storage().unsafeGetStorageImpl();
    for (const Memory& memory : memories_) {
      if (memory.sim == sim) {
        return memory.cpu;
      }
    }
    memories_.push_back({sim, storage_on_host(tensor, /*can_grow=*/true)});
    return memories_.back().cpu;
  }

  // What the kernel changed of an argument beside the bytes of its memory.
  void settle(const Loan& loan) {
    if (is_sparse(loan.sim)) {
      settle_sparse(loan);
      return;
    }
    // One without memory is immutable, and nested ones keep their sizes.
    if (loan.sim._is_zerotensor() || loan.sim.is_nested()) {
      return;
    }
    auto* impl = loan.sim.unsafeGetTensorImpl();
    const c10::Storage &own = loan.sim.storage(), &lent = loan.cpu.storage();
    if (lent.data() != own.data()) {  // it needed more memory than there was
      resize_storage(own, lent.nbytes());
      std::memcpy(own.mutable_data(), lent.data(), lent.nbytes());
      // For the other tensors of the storage, which share `lent`.
      lent.set_data_ptr_noswap(c10::DataPtr(own.mutable_data(), c10::Device(c10::kCPU)));
    }
    if (loan.sim.sizes() != loan.cpu.sizes() || loan.sim.strides() != loan.cpu.strides() ||
        loan.sim.storage_offset() != loan.cpu.storage_offset()) {
      impl->set_storage_offset(loan.cpu.storage_offset());
      impl->set_sizes_and_strides(loan.cpu.sizes(), loan.cpu.strides());
    }
    keep_signs(loan.sim, loan.cpu);
  }

  void settle_sparse(const Loan& loan) {
    std::vector<at::Tensor> parts = parts_of(loan.cpu);
    for (at::Tensor& part : parts) {
      part = own(std::move(part));
    }
    set_parts(loan.sim, loan.cpu, parts);
  }

  void own_results() {
    const auto& returns = op_.schema().returns();
    const size_t begin = stack_->size() - returns.size();
    for (size_t i = 0; i < returns.size(); ++i) {
      c10::IValue& value = (*stack_)[begin + i];
      if (value.isTensor()) {
        value = own(std::move(value).toTensor(), returns[i]);
      } else if (value.isTensorList()) {
        // Out of the list first, so that each tensor has one owner.
        std::vector<at::Tensor> tensors = value.toTensorVector();
        value = c10::IValue();
        for (at::Tensor& tensor : tensors) {
          tensor = own(std::move(tensor), returns[i]);
        }
        value = c10::IValue(std::move(tensors));
      }
    }
  }

  at::Tensor own(at::Tensor result, const c10::Argument& declared) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        declared.alias_info() == nullptr || !result.defined() || !result.is_cpu() || is_lent(result),
        "the operator '", op_.schema().operator_name(),
        "' returns a view, for which simulated GPUs have no kernel");
    return own(std::move(result));
  }

  bool is_lent(const at::Tensor& cpu) const {
    return std::any_of(
        loans_.begin(), loans_.end(), [&](const Loan& loan) { return loan.cpu.is_same(cpu); });
  }

  at::Tensor own(at::Tensor result) {
    if (!result.defined() || !result.is_cpu()) {
      return result;
    }
    for (const Loan& loan : loans_) {
      if (loan.cpu.is_same(result)) {
        return loan.sim;
      }
    }
    if (is_sparse(result)) {
      std::vector<at::Tensor> parts = parts_of(result);
      const at::Tensor like = result;
      for (at::Tensor& part : parts) {
        part = own(std::move(part));
      }
      return composed(like, parts, device_);
    }
    for (const Memory& memory : memories_) {
      // A kernel may return what it was given: a contiguous argument, say.
      if (result.has_storage() && memory.cpu.is_alias_of(result.storage())) {
        result = result.clone();
        break;
      }
    }
    return result.is_nested() ? adopt_nested(result, device_) : adopt(std::move(result), device_);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  c10::Device device_;
  c10::SmallVector<Loan, 4> loans_;
  c10::SmallVector<Memory, 4> memories_;
  std::optional<Late::Call> late_;
};

inline void run_on_host_of(
    std::optional<c10::Device> device, const c10::OperatorHandle& op, torch::jit::Stack* stack,
    CpuKernel kernel) {
  if (!device || device->type() != kSim) {
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
    return;
  }
  const c10::DeviceGuard guard(*device);
  use_cpu_generator(op, *stack, guard.current_device());
  Call(op, stack, guard.current_device()).run(kernel);
}

template <CpuKernel kernel>
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_host_of(device_of_call(op, *stack), op, stack, kernel);
}

inline void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_host<&torchs_own>(op, stack);
}

template <c10::DispatchKey key>
void call_as_composed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::OptionalDeviceGuard guard(device_of_parts(op, *stack, layout_of(key)));
  op.redispatchBoxed(c10::DispatchKeySet(key), stack);
}

// For sparse and nested tensors: by the CPU's kernel for the layout.
template <c10::DispatchKey key>
void fallback_for(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (is_composed_of_operators(op)) {
    call_as_composed<key>(op, stack);
  } else {
    run_on_host_of(
        device_of_call(op, *stack, layout_of(key)), op, stack, &torchs_own_for<key>);
  }
}

// The sizes of a nested tensor to make are a tensor of the CPU.
inline void nested_of_padded(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_host_of(device_of_parts(op, *stack, ""), op, stack, &torchs_own);
}

// A model or its input was left on the CPU: what cuDNN and oneDNN say, before they compare devices.
template <CpuKernel kernel>
void convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor input = (stack->end() - 9)->toTensor(), weight = (stack->end() - 8)->toTensor();
  TORCH_CHECK(
      !kAsCuda || input.options().type_equal(weight.options()), "Input type (", input.toString(),
      ") and weight type (", weight.toString(), ") should be the same",
      input.is_cpu() ? " or input should be a MKLDNN tensor and weight is a dense tensor" : "");
  run_on_host<kernel>(op, stack);
}

inline void masked_fill(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor self = (stack->end() - 3)->toTensor(), mask = (stack->end() - 2)->toTensor();
  TORCH_CHECK(
      self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
      mask.device(), " and self on ", self.device());
  fallback(op, stack);
}

// As make_info does in torch's TensorAdvancedIndexing.cpp: what is assigned by is moved, what is read by
// is refused.
inline void index_put(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto begin = stack->end() - op.schema().arguments().size();
  const c10::Device device = begin[0].toTensor().device();
  const auto moved = [&](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kSim
        ? c10::IValue(value.toTensor().to(device))
        : value;
  };
  c10::impl::GenericList indices(begin[1].toList().elementType());
  for (const c10::IValue& each : begin[1].toListRef()) {
    indices.push_back(moved(each));
  }
  begin[1] = std::move(indices);
  if (begin[2].toTensor().dim() == 0) {
    begin[2] = moved(begin[2]);
  }
  if (device.type() != kSim && begin[2].toTensor().device() == device) {
    return torchs_own(op, stack);
  }
  fallback(op, stack);
}

} // namespace unidev_sim
