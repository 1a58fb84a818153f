// What torch looks for in a build for CUDA beside the dispatcher's kernels.
#pragma once

#include "hooks.h"
#include "profiler.h"

#include <ATen/native/transformers/attention.h>
#include <c10/util/Registry.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <new>

#include <pthread.h>

namespace unidev_sim {
namespace {

using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, SimHooks)

// torch asks the registry once. If that was before this library was loaded, it keeps an object of
// the base class, which then gets our methods.
void install_hooks() {
  const at::CUDAHooksInterface& known = at::detail::getCUDAHooks();
  if (dynamic_cast<const SimHooks*>(&known) == nullptr) {
    static_assert(sizeof(SimHooks) == sizeof(at::CUDAHooksInterface));
    new (const_cast<at::CUDAHooksInterface*>(&known)) SimHooks();
  }
}

// scaled_dot_product_attention: by the formula, not by a fused kernel of CUDA's.
int64_t attention_by_formula(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
    double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(at::SDPBackend::math);
}

void start_cuda() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&attention_by_formula);
  install_hooks();
  torch::profiler::impl::registerCUDAMethods(new SimProfiler());
  pthread_atfork(nullptr, nullptr, [] { is_forked.store(is_used.load()); });
}

} // namespace
} // namespace unidev_sim

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
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kCUDA, SimTimer)

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
