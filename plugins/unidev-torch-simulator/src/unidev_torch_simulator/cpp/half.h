// Half precision by way of float32: products and convolutions, which the CPU computes slowly in it, and
// what it has no kernels for. Each is computed in float32, as CUDA accumulates, and rounded once.
#pragma once

#include "layers.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/isnan.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace unidev_sim {

// Whether the CPU lacks instructions for it, by torch's own choice between its kernels.
inline std::atomic<bool>& is_slow(at::ScalarType dtype) {
  const auto lacks = [](const char* question) {
    const auto op = c10::Dispatcher::singleton().findSchema({question, ""});
    return !op || !op->typed<bool()>().call();
  };
  static std::atomic<bool> bfloat16{lacks("mkldnn::_is_mkldnn_bf16_supported")};
  static std::atomic<bool> half{lacks("mkldnn::_is_mkldnn_fp16_supported")};
  return dtype == at::kBFloat16 ? bfloat16 : half;
}

inline bool is_narrow(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kComplexHalf;
}

inline at::ScalarType widened(at::ScalarType dtype) {
  return dtype == at::kComplexHalf ? at::kComplexFloat : is_narrow(dtype) ? at::kFloat : dtype;
}

inline bool is_dtype(const c10::Argument& argument) {
  auto type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// One call of a CPU kernel in float32, in place of float16, bfloat16 or complex32.
class Widened {
 public:
  Widened(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), stack_(stack) {
    each_argument([&](const c10::Argument& argument, c10::IValue& value) {
      is_complex_ = is_complex_ || value.isComplexDouble();
      if (value.isTensor() && value.toTensor().defined()) {
        see(value.toTensor().scalar_type());
        has_dimensions_ = has_dimensions_ ||
            (is_narrow(value.toTensor().scalar_type()) && value.toTensor().dim() > 0);
      } else if (value.isInt() && is_dtype(argument)) {
        see(value.toScalarType());
        rounds_ = converts_ = is_narrow(value.toScalarType());
      }
    });
  }

  // float16 (of complex32, too) or bfloat16, if it is the only precision of the call. Of two, torch takes
  // the higher one, or refuses. Numbers take part in any precision, where an operator promotes.
  std::optional<at::ScalarType> precision(bool promotes) const {
    bool is_alone = narrow_.has_value();
    each_argument([&](const c10::Argument&, c10::IValue& value) {
      if (value.isTensor() && value.toTensor().defined()) {
        const at::Tensor& tensor = value.toTensor();
        const bool is_number = promotes && tensor.dim() == 0 &&
            (has_dimensions_ || tensor.unsafeGetTensorImpl()->is_wrapped_number());
        is_alone = is_alone &&
            (converts_ || is_number || c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true) ||
             c10::toRealValueType(tensor.scalar_type()) == *narrow_);
      }
    });
    return is_alone ? narrow_ : std::nullopt;
  }

  bool is_complex() const {
    return is_complex_;
  }

  void run() {
    each_argument([&](const c10::Argument& argument, c10::IValue& value) {
      if (value.isTensor() && value.toTensor().defined()) {
        const auto* alias = argument.alias_info();
        value = widen(value.toTensor(), alias != nullptr && alias->isWrite());
      } else if (value.isInt() && is_dtype(argument)) {
        value = widened(value.toScalarType());
      }
    });
    check_overlaps();
    torchs_own(op_, stack_);
    for (const Copy& copy : copies_) {
      if (copy.is_written) {
        write_back(copy);
      }
    }
    const size_t returns = op_.schema().returns().size();
    for (auto value = stack_->end() - returns; value != stack_->end(); ++value) {
      if (value->isTensor() && value->toTensor().defined()) {
        *value = narrowed(value->toTensor());
      }
    }
  }

 private:
  struct Copy {
    at::Tensor own, wide;
    bool is_written;
  };

  template <typename See>
  void each_argument(const See& see) const {
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      see(arguments[i], (*stack_)[stack_->size() - arguments.size() + i]);
    }
  }

  void see(at::ScalarType dtype) {
    is_complex_ = is_complex_ || c10::isComplexType(dtype);
    if (is_narrow(dtype)) {
      narrow_ = c10::toRealValueType(dtype);
    }
  }

  at::Tensor widen(const at::Tensor& tensor, bool is_written) {
    if (!is_narrow(tensor.scalar_type())) {
      return tensor;
    }
    for (Copy& copy : copies_) {
      if (copy.own.is_same(tensor)) {  // x.sin_() arrives as sin.out(x, out=x)
        copy.is_written = copy.is_written || is_written;
        return copy.wide;
      }
    }
    copies_.push_back({tensor, tensor.to(widened(tensor.scalar_type())), is_written});
    return copies_.back().wide;
  }

  // As kernels do, which here see copies.
  void check_overlaps() const {
    for (const Copy& written : copies_) {
      if (written.is_written) {
        at::assert_no_internal_overlap(written.own);
        for (const Copy& other : copies_) {
          at::assert_no_partial_overlap(written.own, other.own);
        }
      }
    }
  }

  static void write_back(const Copy& copy) {
    if (copy.own.sizes() != copy.wide.sizes()) {  // the kernel resized it
      copy.own.resize_(copy.wide.sizes());
      copy.own.unsafeGetTensorImpl()->set_sizes_and_strides(
          copy.wide.sizes(), copy.wide.strides());
    }
    copy.own.copy_(copy.wide);
  }

  at::Tensor narrowed(const at::Tensor& result) const {
    for (const Copy& copy : copies_) {
      if (copy.wide.is_same(result)) {
        return copy.own;
      }
    }
    const at::ScalarType dtype = result.scalar_type();
    if (!rounds_ || (dtype != at::kFloat && dtype != at::kComplexFloat)) {
      return result;
    }
    return result.to(dtype == at::kFloat ? *narrow_ : at::kComplexHalf);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  std::optional<at::ScalarType> narrow_;
  bool is_complex_ = false, has_dimensions_ = false, converts_ = false, rounds_ = true;
  c10::SmallVector<Copy, 4> copies_;
};

inline bool has_narrow_argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return std::any_of(
      stack.end() - op.schema().arguments().size(), stack.end(), [](const c10::IValue& value) {
        return value.isTensor() ? value.toTensor().defined() && is_narrow(value.toTensor().scalar_type())
                                : value.isInt() && value.toInt() == int64_t(at::kComplexHalf);
      });
}

enum class Lacking {
  speed,
  halves,
  complex,
};

template <Lacking lacking>
void by_float32(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (has_narrow_argument(op, *stack)) {
    Widened call(op, stack);
    const auto precision = call.precision(/*promotes=*/lacking == Lacking::complex);
    const bool is_lacking = lacking == Lacking::halves || call.is_complex() ||
        (lacking == Lacking::speed && precision && is_slow(*precision));
    if (precision && is_lacking) {
      return call.run();
    }
  }
  torchs_own(op, stack);
}

// mm and others with out_dtype, which torch has for CUDA alone.
inline void product_in_dtype(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto begin = stack->end() - arguments.size();
  const auto place = std::find_if(arguments.begin(), arguments.end(), is_dtype) - arguments.begin();
  const at::ScalarType dtype = begin[place].toScalarType();
  for (auto value = begin; value != begin + place; ++value) {
    const at::ScalarType own = value->toTensor().scalar_type();
    TORCH_CHECK(
        dtype == own || (dtype == at::kFloat && (own == at::kHalf || own == at::kBFloat16)),
        "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
    *value = value->toTensor().to(dtype);
  }
  stack->erase(begin + place);
  const bool has_out = arguments.back().is_out();
  TORCH_CHECK(
      !has_out || stack->back().toTensor().scalar_type() == dtype,
      "out_dtype must be the same as the dtype of the provided out tensor");
  by_float32<Lacking::speed>(
      c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), has_out ? "out" : ""),
      stack);
}

inline void check_precision(const at::Tensor& input, const c10::IValue& parameter) {
  if (kAsCuda && parameter.isTensor() && parameter.toTensor().defined()) {
    const at::ScalarType found = parameter.toTensor().scalar_type();
    TORCH_CHECK(
        found == input.scalar_type(), "expected scalar type ", input.scalar_type(), " but found ", found);
  }
}

// CUDA's kernels of two layers read weights in the input's precision. The CPU's take float32, too.
inline void group_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto begin = stack->end() - op.schema().arguments().size();
  check_precision(begin[0].toTensor(), begin[1]);
  check_precision(begin[0].toTensor(), begin[2]);
  torchs_own(op, stack);
}

// By way of float32, so that the statistics are kept in it.
inline void layer_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto begin = stack->end() - op.schema().arguments().size();
  const at::Tensor input = begin[0].toTensor();
  const bool is_forward = begin[1].isIntList();
  check_precision(input, begin[is_forward ? 2 : 5]);
  check_precision(input, begin[is_forward ? 3 : 6]);
  if (!is_narrow(input.scalar_type())) {
    return torchs_own(op, stack);
  }
  for (auto value = begin; value != stack->end(); ++value) {
    if (value->isTensor() && value->toTensor().defined()) {
      *value = value->toTensor().to(at::kFloat);
    }
  }
  torchs_own(op, stack);
  const auto results = stack->end() - 3;
  for (auto result = results; result != (is_forward ? results + 1 : stack->end()); ++result) {
    if (result->toTensor().defined()) {
      *result = result->toTensor().to(input.scalar_type());
    }
  }
}

// Of complex numbers the CPU has no kernel in any precision.
inline void nansum(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& self = *(stack->end() - op.schema().arguments().size());
  if (!self.toTensor().is_complex()) {
    return torchs_own(op, stack);
  }
  self = self.toTensor().masked_fill(at::isnan(self.toTensor()), 0);
  const bool has_out = op.schema().overload_name() == "out";
  by_float32<Lacking::complex>(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::sum", has_out ? "IntList_out" : "dim_IntList"),
      stack);
}

// With cuFFT's refusal, in torch's words (aten/src/ATen/native/cuda/CuFFTPlanCache.h).
inline void transform(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = stack->end() - op.schema().arguments().size();
  const at::Tensor self = arguments[0].toTensor();
  if (is_narrow(self.scalar_type())) {
    std::vector<int64_t> sizes;
    for (const int64_t dim : arguments[1].toIntVector()) {
      sizes.push_back(self.size(dim));
    }
    if (op.schema().name() == "aten::_fft_c2r" && !sizes.empty()) {
      sizes.back() = arguments[3].toInt();
    }
    for (const int64_t size : sizes) {
      TORCH_CHECK(
          size > 0 && (size & (size - 1)) == 0,
          "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
          "precision, but got a signal size of", at::IntArrayRef(sizes));
    }
  }
  by_float32<Lacking::halves>(op, stack);
}

using MakeKernel = torch::CppFunction (*)();

// For all overloads of torch's operators, also in place. The lists after the first have the dtypes that OpInfo
// knows of CUDA and not of the CPU (2.13).
inline MakeKernel by_float32_of(const std::string& name) {
  static const std::vector<std::pair<MakeKernel, std::vector<std::string>>> kernels = {
      {[] { return UNIDEV_ON_HOST(by_float32<Lacking::speed>); },
       {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "dot", "vdot", "_addmm_activation",
        "_native_multi_head_attention", "_transformer_encoder_layer_fwd"}},
      {[] { return UNIDEV_ON_HOST(by_float32<Lacking::halves>); },
       {"avg_pool3d", "avg_pool3d_backward", "_upsample_bilinear2d_aa",
        "_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa",
        "_upsample_bicubic2d_aa_backward", "_upsample_lanczos2d_aa",
        "_upsample_lanczos2d_aa_backward", "multi_margin_loss", "multi_margin_loss_backward",
        "multilabel_margin_loss_forward", "multilabel_margin_loss_backward", "rrelu_with_noise"}},
      {[] { return UNIDEV_ON_HOST(nansum); }, {"nansum"}},
      {[] { return UNIDEV_ON_HOST(transform); }, {"_fft_r2c", "_fft_c2r", "_fft_c2c"}},
      {[] { return UNIDEV_ON_HOST(by_float32<Lacking::complex>); },
       {"acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "cos", "cosh", "div", "exp", "lerp",
        "log", "logaddexp", "pow", "prod", "rsqrt", "sigmoid", "sigmoid_backward", "sin",
        "sinh", "sqrt", "sum", "tan", "tanh", "tanh_backward", "trace"}},
  };
  const size_t begin = sizeof("aten::") - 1, in_place = name.back() == '_' ? 1 : 0;
  const std::string base = name.substr(begin, name.size() - begin - in_place);
  for (const auto& [kernel, names] : kernels) {
    if (std::find(names.begin(), names.end(), base) != names.end()) {
      return kernel;
    }
  }
  return nullptr;
}

} // namespace unidev_sim
