// The current device of a thread, streams and events. Work on a simulated device is done when the
// call returns, so a stream is only a name and an event only a point in time, unless devices are late.
#pragma once

#include "late.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace unidev_sim {

inline std::array<std::atomic<uint32_t>, kMaxDevices * kPriorities> given_streams{};

struct SimGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kSim;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {kSim, current_device};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kSim, "expected a simulated device, got ", device);
    current_device = checked_index(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count.load());
  }

  c10::Stream getStream(c10::Device device) const override {
    const c10::Device full = with_index(device);
    return c10::Stream(c10::Stream::UNSAFE, full, current_streams[full.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, with_index(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_urgent) const override {
    return getNewStream(device, is_urgent ? 1 - kPriorities : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::Device full = with_index(device);
    const int level = std::clamp(-priority, 0, kPriorities - 1);
    const uint32_t number = given_streams[full.index() * kPriorities + level]++ % kStreams;
    return c10::Stream(c10::Stream::UNSAFE, full, 1 + level * kStreams + number);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_streams[with_index(stream.device()).index()] = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    return !late_mode || with_late([&](Late& late) { return late.query(slot_of(late, stream)); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    host_waits();
    if (late_mode) {
      with_late([&](Late& late) { late.synchronize(slot_of(late, stream)); });
    }
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    checked_index(index);
    if (late_mode) {
      with_late([&](Late& late) { late.synchronize_device(index); });
    }
  }

#if __has_include(<c10/core/DeviceCapability.h>)
  // All that the CPU supports, which is every dtype of torch, unless the user wants less.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability found;
    auto& has = found.capability_data.supported_scalar_types;
    const auto is_there = [](c10::ScalarType dtype) {
      return !(lacking.load() >> static_cast<int>(dtype) & 1);
    };
    has.has_Double = is_there(c10::kDouble);
    has.has_ComplexDouble = is_there(c10::kComplexDouble);
    has.has_Long = is_there(c10::kLong);
    has.has_UInt64 = is_there(c10::kUInt64);
    return found;
  }
#endif

  void record(
      void** event, const c10::Stream& stream, const c10::DeviceIndex,
      const c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new Moment();
    }
    Moment& moment = *static_cast<Moment*>(*event);
    moment.time = std::chrono::steady_clock::now();
    if (late_mode) {
      with_late([&](Late& late) { late.record(moment, slot_of(late, stream)); });
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Moment*>(event);
  }
  // One that was never recorded orders nothing, and is done.
  void block(void* event, const c10::Stream& stream) const override {
    if (late_mode && event != nullptr) {
      with_late([&](Late& late) { late.wait(slot_of(late, stream), *static_cast<Moment*>(event)); });
    }
  }
  bool queryEvent(void* event) const override {
    return !late_mode || event == nullptr ||
        with_late([&](Late& late) { return late.query(*static_cast<Moment*>(event)); });
  }
  void synchronizeEvent(void* event) const override {
    if (late_mode && event != nullptr) {
      with_late([&](Late& late) { late.host_joins(Clock(static_cast<Moment*>(event)->clock)); });
    }
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator()->recordStream(data, stream);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "both events must be recorded before their elapsed time is read");
    for (void* event : {start, end}) {
      TORCH_CHECK(
          !late_mode || with_late([&](Late& late) { return late.is_done(*static_cast<Moment*>(event)); }),
          "CUDA error: device not ready\n(simulated by unidev: synchronize before you ask for a time)");
    }
    const auto passed = static_cast<Moment*>(end)->time - static_cast<Moment*>(start)->time;
    return std::chrono::duration<double, std::milli>(passed).count();
  }

 private:
  using Moment = Late::Moment;

  static uint32_t slot_of(Late& late, const c10::Stream& stream) {
    return late.slot_of(stream.device_index(), stream.id());
  }

  static c10::Device with_index(c10::Device device) {
    const auto index = device.has_index() ? device.index() : current_device;
    return {kSim, checked_index(index)};
  }
};

} // namespace unidev_sim
