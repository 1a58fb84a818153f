// Random numbers: each simulated device has its own generator, whose state is that of CUDA's, a seed
// and an offset. The kernels run on the CPU and accept only CPU generators, so each call gets a new
// one, seeded by both: two threads share none.
#pragma once

#include "memory.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace unidev_sim {

struct SimGenerator final : c10::GeneratorImpl {
  explicit SimGenerator(c10::DeviceIndex index)
      : GeneratorImpl(c10::Device(kSim, checked_index(index)), c10::DispatchKeySet(kKey)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4");  // as CUDA's, for its kernels
    offset_ = offset;
  }
  uint64_t get_offset() const override {
    return offset_;
  }
  uint64_t current_seed() const override {
    return seed_;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
    return seed_;
  }
  // 16 bytes, as DTensor requires of a CUDA generator; CUDA itself also takes the seed alone.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == 16 || state.numel() == 8, "RNG state is wrong size");
    uint64_t words[2] = {0, 0};
    std::memcpy(words, state.data_dtype_initialized<uint8_t>(), state.numel());
    set_current_seed(words[0]);
    set_offset(words[1]);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::detail::empty_cpu(
        {16}, c10::ScalarType::Byte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    const uint64_t words[2] = {seed_, offset_};
    std::memcpy(state.mutable_data_ptr(), words, sizeof words);
    return state.getIntrusivePtr();
  }

  at::Generator for_one_call() {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t seed = seed_ + 0x9E3779B97F4A7C15ull * offset_;  // 2^64 / golden ratio
    offset_ += 4;  // as CUDA's, which advances in fours
    return at::detail::createCPUGenerator(seed);
  }

 private:
  SimGenerator* clone_impl() const override {
    auto* copy = new SimGenerator(device_.index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

inline at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<SimGenerator>(index);
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
  TORCH_CHECK(
      generator.device().type() == kSim, "Expected a '", UNIDEV_NAME,
      "' device type for generator but found '", generator.device().type(), "'");
  return generator.get<SimGenerator>()->for_one_call();
}

} // namespace unidev_sim
