// LSTM, time-major, gates in torch's order i f g o: one product for all inputs, and one per step for the state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "blas.hpp"
#include "scratch.hpp"

namespace tare::ops {

struct Lstm {
  int64_t steps, batch, hidden, layers, input;

  int64_t width(int64_t layer) const { return layer ? hidden : input; }
  int64_t rows() const { return steps * batch; }
};

// What the forward pass saves for the backward pass: the activated gates, the cells and the outputs of each layer.
struct SavedState {
  explicit SavedState(const Lstm& lstm) {
    for (int64_t layer = 0; layer < lstm.layers; ++layer) {
      gates.emplace_back(lstm.rows() * 4 * lstm.hidden);
      cells.emplace_back(lstm.rows() * lstm.hidden);
      outputs.emplace_back(lstm.rows() * lstm.hidden);
    }
  }

  std::vector<std::vector<float>> gates, cells, outputs;
};

inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// For each layer four weights: of the input, of the state, and the bias of either.
using LstmWeights = std::vector<const float*>;
using LstmGradients = std::vector<float*>;

inline void lstm_forward(const float* x, const LstmWeights& weights, float* y, float* last_h, float* last_c, SavedState& saved,
                         const Lstm& lstm) {
  int64_t h = lstm.hidden, b = lstm.batch, rows = lstm.rows();
  for (int64_t layer = 0; layer < lstm.layers; ++layer) {
    const float *w_in = weights[4 * layer], *w_state = weights[4 * layer + 1];
    const float *bias_in = weights[4 * layer + 2], *bias_state = weights[4 * layer + 3];
    const float* from = layer ? saved.outputs[layer - 1].data() : x;
    float *gates = saved.gates[layer].data(), *cells = saved.cells[layer].data(), *out = saved.outputs[layer].data();
    int64_t width = lstm.width(layer);
    gemm(false, true, rows, 4 * h, width, from, width, w_in, width, 0, gates, 4 * h);
    for (int64_t t = 0; t < lstm.steps; ++t) {
      float* now = gates + t * b * 4 * h;
      if (t) gemm(false, true, b, 4 * h, h, out + (t - 1) * b * h, h, w_state, h, 1, now, 4 * h);
      for (int64_t row = 0; row < b; ++row)
        for (int64_t j = 0; j < h; ++j) {
          float* gate = now + row * 4 * h + j;
          auto with_bias = [&](int64_t k) { return gate[k * h] + bias_in[k * h + j] + bias_state[k * h + j]; };
          float i = sigmoid(with_bias(0)), f = sigmoid(with_bias(1)), g = std::tanh(with_bias(2)), o = sigmoid(with_bias(3));
          int64_t at = (t * b + row) * h + j;
          cells[at] = f * (t ? cells[at - b * h] : 0.0f) + i * g;
          out[at] = o * std::tanh(cells[at]);
          gate[0] = i, gate[h] = f, gate[2 * h] = g, gate[3 * h] = o;
        }
    }
    std::memcpy(last_h + layer * b * h, out + (rows - b) * h, b * h * sizeof(float));
    std::memcpy(last_c + layer * b * h, cells + (rows - b) * h, b * h * sizeof(float));
  }
  std::memcpy(y, saved.outputs.back().data(), rows * h * sizeof(float));
}

// dx may be null.
inline void lstm_backward(Scratch& scratch, const float* x, const float* dy, const LstmWeights& weights, float* dx,
                          const LstmGradients& gradients, const SavedState& saved, const Lstm& lstm) {
  int64_t h = lstm.hidden, b = lstm.batch, rows = lstm.rows();
  float *arriving = scratch.take<float>(rows * h + rows * 4 * h + 2 * b * h), *dg = arriving + rows * h;
  float *dh = dg + rows * 4 * h, *dc = dh + b * h;
  std::memcpy(arriving, dy, rows * h * sizeof(float));
  for (int64_t layer = lstm.layers; layer-- > 0;) {
    const float *w_in = weights[4 * layer], *w_state = weights[4 * layer + 1];
    const float *gates = saved.gates[layer].data(), *cells = saved.cells[layer].data(), *out = saved.outputs[layer].data();
    const float* from = layer ? saved.outputs[layer - 1].data() : x;
    std::fill_n(dh, 2 * b * h, 0.0f);
    for (int64_t t = lstm.steps; t-- > 0;) {
      for (int64_t row = 0; row < b; ++row)
        for (int64_t j = 0; j < h; ++j) {
          int64_t at = (t * b + row) * h + j, state = row * h + j;
          const float* gate = gates + (t * b + row) * 4 * h + j;
          float i = gate[0], f = gate[h], g = gate[2 * h], o = gate[3 * h], shaped = std::tanh(cells[at]);
          float d = arriving[at] + dh[state];
          float c = dc[state] + d * o * (1 - shaped * shaped);
          float* to = dg + (t * b + row) * 4 * h + j;
          to[0] = c * g * i * (1 - i);
          to[h] = c * (t ? cells[at - b * h] : 0.0f) * f * (1 - f);
          to[2 * h] = c * i * (1 - g * g);
          to[3 * h] = d * shaped * o * (1 - o);
          dc[state] = c * f;
        }
      gemm(false, false, b, h, 4 * h, dg + t * b * 4 * h, 4 * h, w_state, h, 0, dh, h);
    }
    int64_t width = lstm.width(layer);
    gemm(true, false, 4 * h, width, rows, dg, 4 * h, from, width, 0, gradients[4 * layer], width);
    // The state before the first step is zero, so the first step's gates contribute nothing.
    gemm(true, false, 4 * h, h, rows - b, dg + b * 4 * h, 4 * h, out, h, 0, gradients[4 * layer + 1], h);
    for (int64_t k = 0; k < 4 * h; ++k) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) sum += dg[row * 4 * h + k];
      gradients[4 * layer + 2][k] = gradients[4 * layer + 3][k] = static_cast<float>(sum);
    }
    float* below = layer ? arriving : dx;
    if (below) gemm(false, false, rows, width, 4 * h, dg, 4 * h, w_in, width, 0, below, width);
  }
}

}  // namespace tare::ops
