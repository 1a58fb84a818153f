// The threads of torch's autograd engine, one for each device.
#pragma once

#include "memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/engine.h>

#include <future>

namespace unidev_sim {

// The engine starts its threads on the first backward of the process, and never again: a device
// added later would have none.
struct EnginePeek : torch::autograd::Engine {
  static bool has_started() {
    auto& engine = torch::autograd::Engine::get_default_engine();
    return (engine.*(&EnginePeek::thread_pool_shared_)) != nullptr;
  }
};

// Waits until each device's thread has released what it held from earlier backward passes. Releasing
// takes Python's lock; a thread that requests it while the interpreter exits is killed, and brings
// down the process ("terminate called without an active exception"). So each thread gets another
// pass, which it begins after the last one, and which holds no Python objects, since it comes from a
// thread unknown to Python.
inline void settle_engine() {
  if (!EnginePeek::has_started()) {
    return;
  }
  memory_limit = kUnlimited;  // a device may be full, and no more is computed
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
