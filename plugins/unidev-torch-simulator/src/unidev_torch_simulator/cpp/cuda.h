// What torch looks for in a build for CUDA beside the dispatcher's kernels.
#pragma once

#include "attention.h"
#include "hooks.h"
#include "profiler.h"

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

void start_cuda() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&attention_by_formula);
  install_hooks();
  torch::profiler::impl::registerCUDAMethods(new SimProfiler());
  pthread_atfork(nullptr, nullptr, [] { is_forked.store(is_used.load()); });
}

} // namespace
} // namespace unidev_sim
