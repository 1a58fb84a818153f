// Linear algebra where CUDA's libraries take other arguments than LAPACK does. Called with tensors of
// the CPU.
#pragma once

#include "fallback.h"

#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace unidev_sim {

// The driver gels has no rank and no singular values; the CPU's default is gelsy.
inline void least_squares(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& driver = *(stack->end() - op.schema().arguments().size() + 3);
  TORCH_CHECK(
      driver.isNone() || driver.toStringRef() == "gels",
      "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA");
  driver = std::string("gels");
  torchs_own(op, stack);
}

// Drivers of cuSOLVER, of which the CPU has none: they differ in speed and rounding.
inline void singular_values(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& driver = *(stack->end() - op.schema().arguments().size() + 3);
  if (!driver.isNone()) {
    const std::string name = driver.toStringRef();
    TORCH_CHECK(
        name == "gesvd" || name == "gesvdj" || name == "gesvda", "torch.linalg.svd: unknown svd driver ",
        name, " in svd_cusolver computation. Check doc at "
        "https://pytorch.org/docs/stable/generated/torch.linalg.svd.html");
    driver = c10::IValue();
  }
  torchs_own(op, stack);
}

// The results of a call, also as its out= arguments.
inline void deliver(
    const c10::OperatorHandle& op, torch::jit::Stack* stack, std::vector<at::Tensor> results) {
  const auto& arguments = op.schema().arguments();
  const auto begin = stack->end() - arguments.size();
  auto result = results.begin();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_out()) {
      at::Tensor out = begin[i].toTensor();
      out.resize_(result->sizes()).copy_(*result);
      *result++ = out;
    }
  }
  torch::jit::drop(*stack, arguments.size());
  for (at::Tensor& each : results) {
    torch::jit::push(*stack, std::move(each));
  }
}

// LU without pivots, which LAPACK lacks: both factors in one matrix, in LAPACK's order of columns, and
// the first pivot of each matrix that is zero.
inline std::pair<at::Tensor, at::Tensor> unpivoted(const at::Tensor& matrix) {
  at::Tensor lu = matrix.mT().clone(at::MemoryFormat::Contiguous).mT();
  const int64_t rows = lu.size(-2), columns = lu.size(-1);
  at::Tensor info = at::zeros(lu.sizes().slice(0, lu.dim() - 2), at::kInt);
  for (int64_t k = 0; k < std::min(rows, columns); ++k) {
    const at::Tensor row = lu.select(-2, k), pivot = row.select(-1, k);
    info = at::where((info == 0).logical_and(pivot == 0), at::scalar_tensor(k + 1, at::kInt), info);
    at::Tensor below = lu.narrow(-2, k + 1, rows - k - 1);
    const at::Tensor column = below.select(-1, k).div_(pivot.unsqueeze(-1));
    below.narrow(-1, k + 1, columns - k - 1)
        .sub_(column.unsqueeze(-1) * row.narrow(-1, k + 1, columns - k - 1).unsqueeze(-2));
  }
  return {lu, info};
}

inline void lu_factor(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto begin = stack->end() - op.schema().arguments().size();
  if (begin[1].toBool()) {
    return torchs_own(op, stack);
  }
  const auto [lu, info] = unpivoted(begin[0].toTensor());
  if (begin[2].toBool()) {
    at::_linalg_check_errors(info, "torch.linalg.lu_factor_ex", lu.dim() == 2);
  }
  std::vector<int64_t> sizes = info.sizes().vec();
  sizes.push_back(std::min(lu.size(-2), lu.size(-1)));
  const at::Tensor pivots = at::arange(1, sizes.back() + 1, at::kInt).expand(sizes).contiguous();
  deliver(op, stack, {lu, pivots, info});
}

inline void lu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto begin = stack->end() - op.schema().arguments().size();
  if (begin[1].toBool()) {
    return torchs_own(op, stack);
  }
  const at::Tensor both = unpivoted(begin[0].toTensor()).first;
  const int64_t rank = std::min(both.size(-2), both.size(-1));
  const at::Tensor lower =
      both.narrow(-1, 0, rank).tril(-1) + at::eye(both.size(-2), rank, both.options());
  deliver(
      op, stack, {at::empty({0}, both.options()), lower, both.narrow(-2, 0, rank).triu()});
}

} // namespace unidev_sim
