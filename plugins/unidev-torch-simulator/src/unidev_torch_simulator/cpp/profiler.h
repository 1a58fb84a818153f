// torch.profiler: its events of a device are moments, since all work is done when a call returns.
#pragma once

#include "memory.h"

#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <functional>
#include <memory>

namespace unidev_sim {

struct SimProfiler final : torch::profiler::impl::ProfilerStubs {
  using Event = torch::profiler::impl::ProfilerVoidEventStub;
  using Moment = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

  void record(c10::DeviceIndex* device, Event* event, int64_t* cpu_ns) const override {
    if (device != nullptr) {
      *device = current_device;
    }
    auto moment = std::make_shared<Moment>(std::chrono::system_clock::now());
    if (cpu_ns != nullptr) {
      *cpu_ns = moment->time_since_epoch().count();
    }
    *event = std::move(moment);
  }
  // In microseconds.
  float elapsed(const Event* start, const Event* end) const override {
    const auto passed = *static_cast<Moment*>(end->get()) - *static_cast<Moment*>(start->get());
    return std::chrono::duration<float, std::micro>(passed).count();
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> call) const override {
    for (int index = 0; index < device_count.load(); ++index) {
      call(index);
    }
  }
  void synchronize() const override {}
};

} // namespace unidev_sim
