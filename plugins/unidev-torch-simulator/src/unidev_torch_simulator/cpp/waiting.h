// Where CUDA's host waits for its GPU, though all work is done here when a call returns.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <unordered_set>

namespace unidev_sim {

// By torch.cuda.set_sync_debug_mode: 1 warns, 2 refuses. As c10/cuda/CUDAFunctions.cpp, it is asked by
// copies, by operators and by a stream's synchronize; not by a device's, an event's or collectives.
inline std::atomic<int64_t> sync_debug_mode{0};

inline void host_waits() {
  const int64_t mode = sync_debug_mode.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(mode != 0)) {
    TORCH_CHECK(mode == 1, "called a synchronizing CUDA operation");
    TORCH_WARN("called a synchronizing CUDA operation");
  }
}

// What torch's tags do not say: kernels of CUDA's that wait for the current stream, by its sources in
// aten/src/ATen/native (2.13).
inline const std::unordered_set<std::string>& waiting_operators() {
  static const std::unordered_set<std::string> names = {
      "aten::histc",               // cuda/SummaryOps.cu: the least and the greatest, where none is given
      "aten::multinomial",         // Distributions.cpp: is_valid.item()
      "aten::embedding_renorm_",   // cuda/Embedding.cu: the number of unique indices
      "aten::linalg_eig",          // BatchLinearAlgebra: MAGMA computes on the host
      "aten::_linalg_eigvals",     // as linalg_eig
      "aten::_coalesce",           // sparse/cuda/SparseCUDATensor.cu: the number of elements
      "aten::_to_sparse",          // TensorConversions.cpp: nonzero()
      "aten::_to_sparse_csr", "aten::_to_sparse_csc", "aten::_to_sparse_bsr", "aten::_to_sparse_bsc",
  };
  return names;
}

// Whether the host waits for the operator's result; `is_lent` tells the device's tensors from the host's.
template <typename IsLent>
bool is_waiting(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const IsLent& is_lent) {
  const auto& arguments = op.schema().arguments();
  const auto begin = stack.end() - arguments.size();
  const std::string& name = op.schema().name();
  if (name == "aten::index" || name == "aten::_index_put_impl_" || name == "aten::index_put_" ||
      name == "aten::_unsafe_index") {
    // By nonzero() of the GPU's masks (expandTensors), or to bring the host's numbers there (make_info);
    // what is true in the host's masks comes by pinned memory (TensorAdvancedIndexing.cpp).
    int64_t indices = 0, masks = 0;
    for (const c10::IValue& each : begin[1].toListRef()) {
      if (each.isTensor() && each.toTensor().defined()) {
        const at::Tensor& index = each.toTensor();
        const bool is_mask = index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
        if (!is_mask && !is_lent(index)) {
          return true;
        }
        ++indices;
        masks += is_mask && is_lent(index);
      }
    }
    // One mask and the host's number are masked_fill (TensorAdvancedIndexingUtils.h).
    return masks > 0 && !(indices == 1 && arguments.size() > 3 && begin[2].toTensor().numel() == 1 &&
                          !is_lent(begin[2].toTensor()) && !begin[3].toBool());
  }
  if (name == "aten::repeat_interleave" && stack.back().isInt()) {
    return false;  // its size is given (Repeat.h)
  }
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
      waiting_operators().count(name) > 0;
}

} // namespace unidev_sim
