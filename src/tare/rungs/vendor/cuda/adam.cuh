// Adam (Kingma and Ba, 2014) as torch has it; with decay, AdamW (Loshchilov and Hutter, 2017).
#pragma once

#include "elementwise.cuh"

namespace tare::vendor {

struct AdamRates {
  double rate, first, second;
};

// Counts the step, and leaves the step size and the correction of the squares for the update.
static __global__ void adam_step(AdamRates rates, float* steps, float* factors) {
  double step = *steps += 1;
  factors[0] = static_cast<float>(rates.rate / (1 - pow(rates.first, step)));
  factors[1] = static_cast<float>(sqrt(1 - pow(rates.second, step)));
}

// The buffers are laid out like those of SGD (elementwise.cuh).
template <class T>
struct Adam {
  static constexpr int pack = 4;
  const float* gradient;
  const T* half;
  T* weights;
  int64_t halves;
  float *master, *mean, *square;
  const float* factors;
  float b1, b2, rest, kept, epsilon;
  bool stored_rounded;

  __device__ void operator()(int64_t number_of_pack) const {
    int64_t i = number_of_pack * pack;
    float g[pack], m[pack], s[pack], w[pack], scale = factors[0], root = factors[1];
    if (i < halves) load<T, pack>(g, half + i);
    else load<float, pack>(g, gradient + (i - halves));
    load<float, pack>(m, mean + i);
    load<float, pack>(s, square + i);
    load<float, pack>(w, master + i);
#pragma unroll
    for (int k = 0; k < pack; ++k) {
      m[k] += b1 * (g[k] - m[k]);
      s[k] = b2 * s[k] + rest * g[k] * g[k];
      w[k] = kept * w[k] - scale * m[k] / (sqrtf(s[k]) / root + epsilon);
      if (stored_rounded) w[k] = to_float(from_float<T>(w[k]));
    }
    store<float, pack>(mean + i, m);
    store<float, pack>(square + i, s);
    store<float, pack>(master + i, w);
    if (i < halves) store<T, pack>(weights + i, w);
  }
};

template <class T>
Call adam(Device& device, const Op& op) {
  T* weights = find<T>(op, "weights");
  int64_t halves = weights ? op["weights"].size : 0, size = op["master"].size;
  if (size % Adam<T>::pack || halves % Adam<T>::pack) throw std::runtime_error("the flat buffers of an update do not end at a multiple of four");
  AdamRates rates{op.number("learning_rate"), op.number("first"), op.number("second")};
  float *steps = op["steps"].as<float>(), *factors = reinterpret_cast<float*>(device.allocate(2 * sizeof(float)));
  Adam<T> body{find<float>(op, "gradient"), find<T>(op, "gradient_half"), weights, halves, op["master"].as<float>(), op["momentum"].as<float>(),
               op["second"].as<float>(), factors, static_cast<float>(1 - rates.first), static_cast<float>(rates.second),
               static_cast<float>(1 - rates.second), static_cast<float>(1 - rates.rate * op.number("decay")), static_cast<float>(op.number("epsilon")),
               op.attributes["round"].boolean};
  Call update = for_each(device, size / Adam<T>::pack, body);
  return [=, stream = device.stream] {
    start(adam_step, 1, 1, stream, rates, steps, factors);
    update();
  };
}

}  // namespace tare::vendor
