// Random numbers: each simulated device has its own generator. The kernels run on the CPU and
// accept only CPU generators, so ours wraps one, which the fallback passes instead.
#pragma once

#include "memory.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

namespace unidev_sim {

struct SimGenerator final : c10::GeneratorImpl {
  SimGenerator(c10::DeviceIndex index, at::Generator inner)
      : GeneratorImpl(
            c10::Device(kSim, checked_index(index)),
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner(std::move(inner)) {}

  void set_current_seed(uint64_t seed) override {
    inner.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    inner.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return inner.get_offset();
  }
  uint64_t current_seed() const override {
    return inner.current_seed();
  }
  uint64_t seed() override {
    return inner.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    inner.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }

  at::Generator inner;

 private:
  SimGenerator* clone_impl() const override {
    return new SimGenerator(device_.index(), inner.clone());
  }
};

inline at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<SimGenerator>(index, at::detail::createCPUGenerator());
}

inline const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* made = new std::vector<at::Generator>();
    for (int i = 0; i < device_count.load(); ++i) {
      made->push_back(new_generator(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  return (*generators)[checked_index(index < 0 ? current_device : index)];
}

inline at::Generator cpu_generator_of(const at::Generator& generator) {
  return generator.device().type() == kSim ? generator.get<SimGenerator>()->inner : generator;
}

} // namespace unidev_sim
