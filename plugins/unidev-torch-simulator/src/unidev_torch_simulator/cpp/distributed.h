// What torch.distributed looks for on a device beside the operators, which are Python's.
#pragma once

#include "hooks.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/library.h>

// Without it the logger of DistributedDataParallel fails an assertion.
namespace c10d {
namespace {

struct SimTimer final : Timer {
  explicit SimTimer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto begun = getTimestamp(start), ended = getTimestamp(end);
    if (!begun || !ended || *ended < *begun) {
      return std::nullopt;
    }
    return *ended - *begun;
  }
};
C10_REGISTER_TYPED_CLASS(TimerRegistry, unidev_sim::kSim, SimTimer)

} // namespace
} // namespace c10d

// The factor of ReduceOp.PREMUL_SUM, which torch's Python cannot read from an operator's argument.
TORCH_LIBRARY_FRAGMENT(unidev_sim, m) {
  m.def(
      "premul_factor(__torch__.torch.classes.c10d.ReduceOp op) -> Tensor",
      [](const c10::intrusive_ptr<c10d::ReduceOp>& op) {
        const auto* found =
            static_cast<const c10d::NCCLPreMulSumSupplement*>(op->supplement_.get());
        TORCH_CHECK(found != nullptr, "PREMUL_SUM has no factor");
        return found->tensor_factor.defined() ? found->tensor_factor
                                              : at::scalar_tensor(found->double_factor, at::kDouble);
      });
}
