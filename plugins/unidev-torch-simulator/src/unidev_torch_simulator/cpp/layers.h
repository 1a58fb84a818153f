// Operations that torch requires of accelerators, but without matching CPU kernels: LSTM and GRU
// cells, after the formulas of torch's aten/src/ATen/native/RNN.cpp, dropout, and softmax. Each is one
// kernel on CUDA, so these compute with tensors of the CPU: what they hold in between is not counted
// as the device's memory.
#pragma once

#include "fallback.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>

#include <tuple>
#include <vector>

namespace unidev_sim {

inline at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  const at::Tensor all =
      with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const std::vector<at::Tensor> parts = all.chunk(4, 1);
  const at::Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]);
  const at::Tensor cell = at::tanh(parts[2]), out = at::sigmoid(parts[3]);
  const at::Tensor cy = forget * cx + in * cell;
  return {out * at::tanh(cy), cy, at::cat({in, forget, cell, out}, 1)};
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy,
    const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const std::vector<at::Tensor> parts = workspace.chunk(4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const at::Tensor tanh_cy = at::tanh(cy);
  const at::Tensor dh = grad_hy && grad_hy->defined() ? *grad_hy : cy.new_zeros(cy.sizes());
  at::Tensor dc = dh * out * (1 - tanh_cy * tanh_cy);
  if (grad_cy && grad_cy->defined()) {
    dc = dc + *grad_cy;
  }
  const at::Tensor grad_gates = at::cat(
      {dc * cell * in * (1 - in), dc * cx * forget * (1 - forget), dc * in * (1 - cell * cell),
       dh * tanh_cy * out * (1 - out)},
      1);
  return {grad_gates, dc * forget, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

inline std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  const std::vector<at::Tensor> in = with_bias(input_gates, input_bias).chunk(3, 1);
  const std::vector<at::Tensor> hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const at::Tensor reset = at::sigmoid(in[0] + hidden[0]), update = at::sigmoid(in[1] + hidden[1]);
  const at::Tensor fresh = at::tanh(in[2] + reset * hidden[2]);
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const std::vector<at::Tensor> parts = workspace.chunk(5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3];
  const at::Tensor& hidden_fresh = parts[4];
  const at::Tensor d_update = grad_hy * (hx - fresh) * update * (1 - update);
  const at::Tensor d_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const at::Tensor d_reset = d_fresh * hidden_fresh * reset * (1 - reset);
  const at::Tensor d_input = at::cat({d_reset, d_update, d_fresh}, 1);
  const at::Tensor d_hidden = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  const at::Tensor none;
  return {d_input, d_hidden, grad_hy * update, has_bias ? d_input.sum(0) : none,
          has_bias ? d_hidden.sum(0) : none};
}

// The CPU's kernel takes no generator, and would draw from the CPU's own.
inline std::tuple<at::Tensor, at::Tensor> native_dropout(
    const at::Tensor& input, double rate, std::optional<bool> train) {
  if (!train.value_or(true) || rate == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(c10::kBool))};
  }
  const double scale = rate == 1 ? 0 : 1 / (1 - rate);
  const at::Tensor mask =
      at::empty_like(input, input.options().dtype(c10::kBool))
          .bernoulli_(1 - rate, cpu_generator_of(default_generator(current_device)));
  return {(input * mask).mul_(scale), mask};
}

// softmax and log_softmax of half precision with dtype=float32, as in autocast: of a tensor on CUDA
// torch asks the kernel to convert, too, which the CPU's refuses.
inline void softmax(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& is_converting = stack->back();
  if (is_converting.toBool()) {
    c10::IValue& input = *(stack->end() - 3);
    input = input.toTensor().to(c10::kFloat);
    is_converting = false;
  }
  torchs_own(op, stack);
}

inline void softmax_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue& dtype = stack->back();
  const at::ScalarType wanted = dtype.toScalarType();
  dtype = (stack->end() - 4)->toTensor().scalar_type();
  torchs_own(op, stack);
  c10::IValue& result = stack->back();
  result = result.toTensor().to(wanted);
}

template <auto function>
void boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto kernel = c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
  kernel.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

} // namespace unidev_sim

#define UNIDEV_ON_HOST(kernel) \
  torch::CppFunction::makeFromBoxedFunction<&unidev_sim::run_on_host<&unidev_sim::kernel>>()
#define UNIDEV_FORMULA(function) UNIDEV_ON_HOST(boxed<&unidev_sim::function>)
