// LSTM by cuDNN, with the algorithm that is fastest for the forward and backward pass together.
#pragma once

#include "cudnn_graph.cuh"
#include "search.cuh"

namespace tare::vendor {

class Lstm {
 public:
  Lstm(Device& device, Search& search, const Op& forward, const Op* backward, bool tf32)
      : device_(device), forward_(forward), backward_(backward), tf32_(tf32) {
    const Value& x = forward["x"];
    steps_ = static_cast<int>(x.shape[0]), batch_ = static_cast<int>(x.shape[1]), input_ = static_cast<int>(x.shape[2]);
    hidden_ = static_cast<int>(forward.integer("hidden")), layers_ = static_cast<int>(forward.integer("layers"));
    type_ = graph::type_of(x.dtype);
    describe();
    std::string key = std::string("lstm") + (backward ? ":train:" : ":infer:") + (tf32 ? "tf32" : x.dtype);
    for (int n : {steps_, batch_, input_, hidden_, layers_}) key += "," + std::to_string(n);
    static constexpr cudnnRNNAlgo_t algorithms[] = {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};
    int best = search.fastest(key, 3, [&](int i) -> Call {
      set(algorithms[i]);
      return [this] {
        run_forward();
        if (backward_) run_backward();
      };
    });
    set(algorithms[best]);
  }

  Call forward() {
    return [this] { run_forward(); };
  }
  Call backward() {
    return [this] { run_backward(); };
  }

 private:
  void describe() {
    check(cudnnCreateRNNDescriptor(&rnn_), "cudnnCreateRNNDescriptor");
    check(cudnnCreateDropoutDescriptor(&dropout_), "cudnnCreateDropoutDescriptor");
    check(cudnnSetDropoutDescriptor(dropout_, device_.cudnn, 0.0f, nullptr, 0, 0), "cudnnSetDropoutDescriptor");
    std::vector<int> lengths(batch_, steps_);
    float padding = 0;
    auto data = [&](cudnnRNNDataDescriptor_t& result, int width) {
      check(cudnnCreateRNNDataDescriptor(&result), "cudnnCreateRNNDataDescriptor");
      check(cudnnSetRNNDataDescriptor(result, type_, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps_, batch_, width, lengths.data(), &padding), "cudnnSetRNNDataDescriptor");
    };
    data(x_, input_);
    data(y_, hidden_);
    check(cudnnCreateTensorDescriptor(&state_), "cudnnCreateTensorDescriptor");
    int shape[] = {layers_, batch_, hidden_}, strides[] = {batch_ * hidden_, hidden_, 1};
    check(cudnnSetTensorNdDescriptor(state_, type_, 3, shape, strides), "cudnnSetTensorNdDescriptor");
    lengths_ = reinterpret_cast<int*>(device_.allocate(batch_ * 4));
    device_.copy(lengths_, lengths.data(), batch_ * 4, cudaMemcpyHostToDevice);
    if (backward_ && !backward_->find("dx")) unused_ = device_.allocate(forward_["x"].bytes());
  }

  void set(cudnnRNNAlgo_t algorithm) {
    auto math = type_ == CUDNN_DATA_FLOAT ? (tf32_ ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH) : CUDNN_TENSOR_OP_MATH;
    check(cudnnSetRNNDescriptor_v8(rnn_, algorithm, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type_, CUDNN_DATA_FLOAT, math,
                                   input_, hidden_, hidden_, layers_, dropout_, CUDNN_RNN_PADDED_IO_DISABLED),
          "cudnnSetRNNDescriptor_v8");
    check(cudnnGetRNNWeightSpaceSize(device_.cudnn, rnn_, &weights_), "cudnnGetRNNWeightSpaceSize");
    require_our_order();
    size_t room = 0, kept = 0;
    check(cudnnGetRNNTempSpaceSizes(device_.cudnn, rnn_, mode(), x_, &room, &kept), "cudnnGetRNNTempSpaceSizes");
    grow(room_, room_bytes_, room);
    grow(kept_, kept_bytes_, kept);
  }

  void grow(char*& memory, size_t& bytes, size_t wanted) {
    if (wanted > bytes) {
      if (memory) device_.release(memory, bytes);
      memory = device_.allocate(wanted);
      bytes = wanted;
    }
  }

  // The weights are packed by lowering/memory.py: all matrices, then all biases. An algorithm that wants another order is
  // not used.
  void require_our_order() {
    char* base = forward_["w0"].data;
    cudnnTensorDescriptor_t matrix, bias;
    check(cudnnCreateTensorDescriptor(&matrix), "cudnnCreateTensorDescriptor");
    check(cudnnCreateTensorDescriptor(&bias), "cudnnCreateTensorDescriptor");
    bool same = true;
    for (int layer = 0; layer < layers_; ++layer)
      for (int id = 0; id < 8; ++id) {
        void *m = nullptr, *b = nullptr;
        check(cudnnGetRNNWeightParams(device_.cudnn, rnn_, layer, weights_, base, id, matrix, &m, bias, &b), "cudnnGetRNNWeightParams");
        const Value& weight = forward_["w" + std::to_string(4 * layer + id / 4)];
        const Value& shift = forward_["w" + std::to_string(4 * layer + 2 + id / 4)];
        same &= m == weight.data + id % 4 * weight.bytes() / 4 && b == shift.data + id % 4 * shift.bytes() / 4;
      }
    cudnnDestroyTensorDescriptor(matrix);
    cudnnDestroyTensorDescriptor(bias);
    if (!same) throw std::runtime_error("this algorithm keeps an LSTM's weights in another order");
  }

  cudnnForwardMode_t mode() const { return backward_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }

  void run_forward() const {
    check(cudnnRNNForward(device_.cudnn, rnn_, mode(), lengths_, x_, forward_["x"].data, y_, forward_["y"].data, state_, nullptr, forward_["h"].data, state_,
                          nullptr, forward_["c"].data, weights_, forward_["w0"].data, room_bytes_, room_, backward_ ? kept_bytes_ : 0, backward_ ? kept_ : nullptr),
          "cudnnRNNForward");
  }

  void run_backward() const {
    char* dx = backward_->find("dx") ? (*backward_)["dx"].data : unused_;
    check(cudnnRNNBackwardData_v8(device_.cudnn, rnn_, lengths_, y_, (*backward_)["y"].data, (*backward_)["dy"].data, x_, dx, state_, nullptr, nullptr, nullptr,
                                  state_, nullptr, nullptr, nullptr, weights_, forward_["w0"].data, room_bytes_, room_, kept_bytes_, kept_),
          "cudnnRNNBackwardData_v8");
    // The call accumulates.
    char* gradient = (*backward_)["dw0"].data;
    check(cudaMemsetAsync(gradient, 0, weights_, device_.stream), "cudaMemsetAsync");
    check(cudnnRNNBackwardWeights_v8(device_.cudnn, rnn_, CUDNN_WGRAD_MODE_ADD, lengths_, x_, (*backward_)["x"].data, state_, nullptr, y_, (*backward_)["y"].data,
                                     weights_, gradient, room_bytes_, room_, kept_bytes_, kept_),
          "cudnnRNNBackwardWeights_v8");
  }

  Device& device_;
  const Op& forward_;
  const Op* backward_;
  bool tf32_;
  int steps_, batch_, input_, hidden_, layers_;
  cudnnDataType_t type_;
  cudnnRNNDescriptor_t rnn_ = nullptr;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  cudnnRNNDataDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnTensorDescriptor_t state_ = nullptr;
  int* lengths_ = nullptr;
  char *unused_ = nullptr, *room_ = nullptr, *kept_ = nullptr;
  size_t weights_ = 0, room_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace tare::vendor
