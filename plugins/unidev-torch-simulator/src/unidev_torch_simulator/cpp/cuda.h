// What torch looks for in a build for CUDA beside the dispatcher's kernels.
#pragma once

#include "hooks.h"
#include "profiler.h"

#include <ATen/native/transformers/attention.h>
#include <c10/util/Registry.h>

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
