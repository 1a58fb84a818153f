// All other operations: check the devices, run torch's CPU kernel on copies, copy back the result.
#pragma once

#include "tensors.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>

#include <vector>

namespace unidev_sim {

// The rules of CUDA: one device for all; a CPU tensor without dimensions may be read as a number,
// and indices (a list of optional tensors) may stay on the CPU.
class DeviceCheck {
 public:
  explicit DeviceCheck(const c10::OperatorHandle& op) : op_(op) {}

  void see(const at::Tensor& tensor, bool is_written, bool is_index = false) {
    if (!tensor.defined()) {
      return;
    }
    if (tensor.device().type() == kSim) {
      if (!sim_) {
        sim_ = tensor.device();
      }
      require_same(*sim_, tensor.device());
    } else if (!other_ && !is_index && (tensor.dim() > 0 || is_written)) {
      other_ = tensor.device();
    }
    if (sim_ && other_) {
      require_same(*sim_, *other_);
    }
  }

  const std::optional<c10::Device>& device() const {
    return sim_;
  }

 private:
  void require_same(c10::Device first, c10::Device second) const {
    TORCH_CHECK(
        first == second,
        "Expected all tensors to be on the same device, but found at least two devices, ", first,
        " and ", second, "! (when checking the arguments of ", op_.schema().operator_name(), ")");
  }

  const c10::OperatorHandle& op_;
  std::optional<c10::Device> sim_, other_;
};

inline bool is_generator(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

// The one device of all simulated tensors among the arguments, or of the argument `device`.
inline std::optional<c10::Device> device_of_call(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  DeviceCheck check(op);
  std::optional<c10::Device> asked;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[begin + i];
    const bool is_written =
        arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    if (value.isTensor()) {
      check.see(value.toTensor(), is_written);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        check.see(tensor, is_written);
      }
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector()) {
        check.see(tensor.value_or(at::Tensor()), is_written, /*is_index=*/true);
      }
    } else if (value.isDevice()) {
      asked = value.toDevice();
    }
  }
  return asked ? asked : check.device();
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

// at::native::cpu_fallback leaves the result on the device of the first tensor, which may be a
// number on the CPU: cpu_scalar * x belongs to x's device.
inline void move_results(
    const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Device device) {
  const auto& returns = op.schema().returns();
  const size_t begin = stack.size() - returns.size();
  for (size_t i = 0; i < returns.size(); ++i) {
    c10::IValue& value = stack[begin + i];
    if (returns[i].alias_info() == nullptr && value.isTensor() && value.toTensor().defined()) {
      value = value.toTensor().to(device);
    }
  }
}

inline void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::optional<c10::Device> device = device_of_call(op, *stack);
  if (!device || device->type() != kSim) {
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
    return;
  }
  const c10::DeviceGuard guard(*device);
  use_cpu_generator(op, *stack, guard.current_device());
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  move_results(op, *stack, guard.current_device());
}

} // namespace unidev_sim
