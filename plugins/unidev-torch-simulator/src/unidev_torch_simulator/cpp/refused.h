// What simulated GPUs do not have, refused in words: torch's own error would list all its backends.
#pragma once

#include "fallback.h"

#include <torch/library.h>

namespace unidev_sim {

inline void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "GPUs simulated by unidev hold no quantized tensors (in ", op.schema().operator_name(),
      "): keep these on the CPU");
}

inline void refuse_scaled(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "GPUs simulated by unidev have no products of scaled float8 tensors (",
      op.schema().operator_name(), "): only a GPU rounds them as a GPU does");
}

} // namespace unidev_sim

#define UNIDEV_REFUSE(function) torch::CppFunction::makeFromBoxedFunction<&unidev_sim::function>()

TORCH_LIBRARY_IMPL(_, UNIDEV_QUANTIZED_KEY, m) {
  m.fallback(UNIDEV_REFUSE(refuse_quantized));
}
#define UNIDEV_REFUSE_SCALED(m)                               \
  m.impl("_scaled_mm", UNIDEV_REFUSE(refuse_scaled));         \
  m.impl("_scaled_mm.out", UNIDEV_REFUSE(refuse_scaled));     \
  m.impl("_scaled_mm_v2", UNIDEV_REFUSE(refuse_scaled));      \
  m.impl("_scaled_grouped_mm", UNIDEV_REFUSE(refuse_scaled));
