// Which devices the arguments of an operator may be on, by the rules of CUDA.
#pragma once

#include "names.h"
#include "nondeterminism.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/adaption.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace unidev_sim {

// What CUDA asks of the devices of an operator's arguments, beside what TensorIterator does.
struct Rule {
  const char* name;
  // Compared before the kernel is called, as torch's list of operators has it (device_checks.py).
  bool is_checked;
  bool is_structured;
  // Else: the arguments that may be a CPU tensor without dimensions.
  std::vector<std::string> numbers = {};
};

// Those of kernels that no list has, seen in 2.14.1 without a GPU: TensorIterator is not told to
// take numbers (addcdiv, losses), or the kernel checks by itself.
inline const std::vector<Rule> kRules = {
#include "checked_operators.inc"
    {"addcdiv", false, true},
    {"addcdiv_", false, true},
    {"addcdiv.out", false, true},
    {"addcmul", false, true, {"tensor2"}},
    {"addcmul_", false, true, {"tensor2"}},
    {"addcmul.out", false, true, {"tensor2"}},
    {"binary_cross_entropy", false, false},
    {"binary_cross_entropy.out", false, false},
    {"index_fill_.int_Scalar", false, false},
    {"index_fill_.int_Tensor", false, false, {"value"}},
    {"lerp.Scalar", false, true},
    {"lerp_.Scalar", false, true},
    {"lerp.Scalar_out", false, true},
    {"lerp.Tensor", false, true, {"weight"}},
    {"lerp_.Tensor", false, true, {"weight"}},
    {"lerp.Tensor_out", false, true, {"weight"}},
    {"mse_loss", false, true},
    {"mse_loss.out", false, true},
    {"smooth_l1_loss", false, true},
    {"smooth_l1_loss.out", false, true},
};

// What is known of an operator; most are unknown.
struct Known {
  const Rule* rule = nullptr;
  const Alert* alert = nullptr;
};

inline Known known_of(const c10::OperatorHandle& op) {
  static const auto all = [] {
    std::unordered_map<c10::OperatorHandle, Known> found;
    const auto add = [&](const char* of_aten, auto Known::*part, const auto* value) {
      const std::string name = std::string("aten::") + of_aten;
      const size_t dot = name.find('.');
      const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
      if (const auto op = c10::Dispatcher::singleton().findOp({name.substr(0, dot), overload})) {
        found[*op].*part = value;
      }
    };
    for (const Rule& rule : kRules) {
      add(rule.name, &Known::rule, &rule);
    }
    if (kAsCuda) {
      for (const Alert& alert : kAlerts) {
        add(alert.name, &Known::alert, &alert);
      }
    }
    return found;
  }();
  const auto found = all.find(op);
  return found == all.end() ? Known() : found->second;
}

// The name of the function that torchgen wraps around a kernel for tensors of a layout.
inline std::string wrapper_of(
    const c10::OperatorHandle& op, bool is_structured, const std::string& layout) {
  const auto& arguments = op.schema().arguments();
  const std::string out =
      std::any_of(arguments.begin(), arguments.end(), [](const auto& each) { return each.is_out(); })
      ? "_out"
      : "";
  const std::string name = op.schema().name().substr(sizeof("aten::") - 1) + out;
  const std::string& overload = op.schema().overload_name();
  const std::string prefix = "wrapper_" + layout + (kAsCuda ? "CUDA_" : "PrivateUse1_");
  if (!is_structured || !layout.empty()) {
    return prefix + overload + "_" + name;
  }
  return prefix + name + (overload.empty() ? "" : "_" + overload);
}

inline bool are_indices(const c10::Argument& argument) {
  const auto list = argument.type()->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

// `see` gets each tensor of an argument, and whether it stands in a list of optional ones. By the
// elements: TorchScript's lists bear types of their own.
template <typename See>
void see_tensors(const c10::Argument& argument, const c10::IValue& value, const See& see) {
  if (value.isTensor()) {
    see(value.toTensor(), false);
  } else if (value.isList()) {
    const bool are_of_index = are_indices(argument);
    for (const c10::IValue& each : value.toListRef()) {
      if (each.isTensor()) {
        see(each.toTensor(), are_of_index);
      }
    }
  }
}

inline bool is_compared(const c10::Argument& argument) {
  return argument.is_out() || !argument.kwarg_only();
}

// The words of torch's wrappers, which look first at what is written to as out=.
inline void fail_as_torchs_wrapper(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack, bool is_structured,
    const char* layout) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  std::optional<c10::Device> common;
  for (const bool are_out : {true, false}) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!is_compared(arguments[i]) || arguments[i].is_out() != are_out) {
        continue;
      }
      see_tensors(arguments[i], stack[begin + i], [&](const at::Tensor& tensor, bool) {
        if (tensor.defined() && tensor.device() != common.value_or(tensor.device())) {
          c10::impl::common_device_check_failure(
              *common, tensor, wrapper_of(op, is_structured, layout).c_str(), arguments[i].name().c_str());
        }
        if (tensor.defined()) {
          common = tensor.device();
        }
      });
    }
  }
}

// The rule of TensorIterator, which the kernels of the other operators follow: one device for all;
// a CPU tensor without dimensions may be read as a number, and indices may stay on the CPU.
class DeviceCheck {
 public:
  void see(const at::Tensor& tensor, bool is_written, bool is_index, bool may_be_number) {
    if (!tensor.defined()) {
      return;
    }
    if (tensor.device().type() == kSim) {
      if (is_index && (sim_ || other_)) {
        const c10::Device indexed = sim_ ? *sim_ : *other_;
        TORCH_CHECK(
            tensor.device() == indexed,
            "indices should be either on cpu or on the same device as the indexed tensor (", indexed,
            ")");
      }
      if (!sim_) {
        sim_ = tensor.device();
      }
      require_same(*sim_, tensor.device());
    } else if (!other_ && !is_index && (tensor.dim() > 0 || is_written || !may_be_number)) {
      other_ = tensor.device();
    }
    if (sim_ && other_) {
      require_same(*sim_, *other_);
    }
  }

  // Of an operator that CUDA checks.
  void compare(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return;
    }
    differs = differs || (first_ && *first_ != tensor.device());
    first_ = tensor.device();
    (first_->type() == kSim ? sim_ : other_) = first_;
  }

  const std::optional<c10::Device>& device() const {
    return sim_;
  }

  bool differs = false;

 private:
  void require_same(c10::Device first, c10::Device second) const {
    TORCH_CHECK(
        first == second,
        "Expected all tensors to be on the same device, but found at least two devices, ", first,
        " and ", second, "!");
  }

  std::optional<c10::Device> sim_, other_, first_;
};

// The one device of all simulated tensors among the arguments, or of the argument `device`.
inline std::optional<c10::Device> device_of_call(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack, const char* layout = "") {
  const auto [rule, alert] = known_of(op);
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  DeviceCheck check;
  std::optional<c10::Device> asked;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[begin + i];
    if (value.isDevice()) {
      asked = value.toDevice();
    }
    if (rule != nullptr && rule->is_checked && is_compared(arguments[i])) {
      see_tensors(arguments[i], value, [&](const at::Tensor& tensor, bool) { check.compare(tensor); });
      continue;
    }
    const bool is_written =
        arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    const bool may_be_number = rule == nullptr || rule->is_checked ||
        std::count(rule->numbers.begin(), rule->numbers.end(), arguments[i].name()) > 0;
    see_tensors(arguments[i], value, [&](const at::Tensor& tensor, bool is_index) {
      check.see(tensor, is_written, is_index, may_be_number);
    });
  }
  if (check.differs) {
    fail_as_torchs_wrapper(op, stack, rule->is_structured, layout);
  }
  if (alert != nullptr) {
    alert_if_refused(*alert, op, stack);
  }
  return asked ? asked : check.device();
}

// The same of an operator whose kernel calls others, which compare devices for themselves.
inline std::optional<c10::Device> device_of_parts(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack, const char* layout) {
  const Rule* rule = known_of(op).rule;
  if (rule != nullptr && rule->is_checked) {
    return device_of_call(op, stack, layout);
  }
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  std::optional<c10::Device> found;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[begin + i];
    if (value.isDevice()) {
      return value.toDevice();
    }
    see_tensors(arguments[i], value, [&](const at::Tensor& tensor, bool) {
      if (!found && tensor.defined() && tensor.device().type() == kSim) {
        found = tensor.device();
      }
    });
  }
  return found;
}

} // namespace unidev_sim
