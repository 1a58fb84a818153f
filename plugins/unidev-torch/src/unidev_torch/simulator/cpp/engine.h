// The threads of torch's autograd engine, one for each device.
#pragma once

#include "memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/engine.h>

#include <future>

namespace unidev_sim {

// The engine makes its threads on the first backward of the process, and never again: a device that
// comes later would have none.
struct EnginePeek : torch::autograd::Engine {
  static bool has_started() {
    auto& engine = torch::autograd::Engine::get_default_engine();
    return (engine.*(&EnginePeek::thread_pool_shared_)) != nullptr;
  }
};

// Waits until each device's thread has dropped what it held of earlier backward passes. That needs
// Python's lock; a thread that asks for it while the interpreter ends is killed by it, and takes the
// process along ("terminate called without an active exception"). So each gets another pass, which
// it begins when it is done with the last, and which holds nothing of Python's, since it comes from
// a thread that Python has never seen.
inline void settle_engine() {
  if (!EnginePeek::has_started()) {
    return;
  }
  std::async(std::launch::async, [] {
    for (int index = 0; index < device_count.load(); ++index) {
      const c10::Device device(kSim, static_cast<c10::DeviceIndex>(index));
      at::Tensor leaf = at::ones({1}, device);
      leaf.set_requires_grad(true);
      leaf.clone().backward();
    }
  }).get();
}

} // namespace unidev_sim
