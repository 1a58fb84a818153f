// What torch looks for in a build for CUDA beside the dispatcher's kernels.
#pragma once

#include "attention.h"
#include "hooks.h"
#include "profiler.h"

#include <ATen/native/DispatchStub.h>
#include <c10/util/Registry.h>

#include <new>

#include <pthread.h>

// torch installs no header for it (aten/src/ATen/native/sparse/SparseStubs.h, 2.13).
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
} // namespace at::native

namespace unidev_sim {
namespace {

// What checks of a sparse tensor call on its indices, not through the dispatcher.
at::Tensor flatten_indices(const at::Tensor& indices, at::IntArrayRef size) {
  at::Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t dim = 0; dim < indices.size(0); ++dim) {
    flat = flat * size[dim] + indices.select(0, dim);
  }
  return flat;
}

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
  at::native::flatten_indices_stub.set_cuda_dispatch_ptr(&flatten_indices);
  install_hooks();
  torch::profiler::impl::registerCUDAMethods(new SimProfiler());
  pthread_atfork(nullptr, nullptr, [] { is_forked.store(is_used.load()); });
}

} // namespace
} // namespace unidev_sim
