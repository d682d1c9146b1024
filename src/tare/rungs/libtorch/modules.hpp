// The networks of resnet50, lstm, mnist_cnn and conv_chain on the C++ frontend, layer by layer as in Python
// (tare/workloads), with their parameters in the same order.
#pragma once

#include <torch/torch.h>

#include "../native/worker/json.hpp"

namespace tare {

namespace nn = torch::nn;

struct Network : nn::Module {
  virtual std::vector<torch::Tensor> run(const torch::Tensor& input) = 0;
  virtual torch::Tensor loss(const std::vector<torch::Tensor>& output, const torch::Tensor& target) = 0;
};

struct MnistNetwork : Network {
  explicit MnistNetwork(const Json& sizes)
      : first(register_module("0", nn::Conv2d(nn::Conv2dOptions(1, 10, 5)))),
        second(register_module("3", nn::Conv2d(nn::Conv2dOptions(10, 20, 5)))),
        third(register_module("7", nn::Linear(320, 50))),
        fourth(register_module("9", nn::Linear(50, static_cast<int64_t>(sizes["classes"].as_number())))) {}

  std::vector<torch::Tensor> run(const torch::Tensor& input) override {
    auto x = torch::relu(torch::max_pool2d(first(input), 2));
    x = torch::relu(torch::max_pool2d(second(x), 2));
    x = torch::relu(third(x.flatten(1)));
    return {torch::log_softmax(fourth(x), 1)};
  }

  torch::Tensor loss(const std::vector<torch::Tensor>& output, const torch::Tensor& target) override {
    return torch::nll_loss(output[0], target);
  }

  nn::Conv2d first, second;
  nn::Linear third, fourth;
};

struct ConvolutionChain : Network {
  explicit ConvolutionChain(const Json& sizes) {
    auto channels = static_cast<int64_t>(sizes["channels"].as_number());
    for (int i = 0; i < static_cast<int>(sizes["calls"].as_number()); ++i)
      layers.push_back(register_module(
          std::to_string(i), nn::Conv2d(nn::Conv2dOptions(channels, channels, 3).padding(1))));
  }

  std::vector<torch::Tensor> run(const torch::Tensor& input) override {
    auto x = input;
    for (auto& layer : layers) x = layer(x);
    return {x};
  }

  torch::Tensor loss(const std::vector<torch::Tensor>&, const torch::Tensor&) override {
    throw std::runtime_error("conv_chain has no loss to train with");
  }

  std::vector<nn::Conv2d> layers;
};

struct Recurrent : Network {
  explicit Recurrent(const Json& sizes)
      : lstm(register_module("0", nn::LSTM(nn::LSTMOptions(count(sizes, "input"), count(sizes, "hidden"))
                                               .num_layers(count(sizes, "layers"))))) {}

  std::vector<torch::Tensor> run(const torch::Tensor& input) override {
    auto [output, state] = lstm(input);
    return {output, std::get<0>(state), std::get<1>(state)};
  }

  torch::Tensor loss(const std::vector<torch::Tensor>& output, const torch::Tensor& target) override {
    return torch::mse_loss(output[0], target);
  }

  static int64_t count(const Json& sizes, const char* name) { return static_cast<int64_t>(sizes[name].as_number()); }

  nn::LSTM lstm;
};

struct Bottleneck : nn::Module {
  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : conv1(register_module("conv1", convolution(in, width, 1, 1))),
        bn1(register_module("bn1", nn::BatchNorm2d(width))),
        conv2(register_module("conv2", convolution(width, width, 3, stride))),
        bn2(register_module("bn2", nn::BatchNorm2d(width))),
        conv3(register_module("conv3", convolution(width, 4 * width, 1, 1))),
        bn3(register_module("bn3", nn::BatchNorm2d(4 * width))) {
    if (stride != 1 || in != 4 * width)
      downsample = register_module("downsample", nn::Sequential(convolution(in, 4 * width, 1, stride), nn::BatchNorm2d(4 * width)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = bn1(conv1(x)).relu_();
    y = bn2(conv2(y)).relu_();
    y = bn3(conv3(y));
    y += downsample ? downsample->forward(x) : x;
    return y.relu_();
  }

  static nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  nn::Sequential downsample{nullptr};
};

struct ResNet50 : Network {
  explicit ResNet50(const Json& sizes)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(count(sizes, "channels"), 64, 7).stride(2).padding(3).bias(false)))),
        bn1(register_module("bn1", nn::BatchNorm2d(64))),
        layer1(register_module("layer1", layer(64, 64, 3, 1))),
        layer2(register_module("layer2", layer(256, 128, 4, 2))),
        layer3(register_module("layer3", layer(512, 256, 6, 2))),
        layer4(register_module("layer4", layer(1024, 512, 3, 2))),
        fc(register_module("fc", nn::Linear(2048, count(sizes, "classes")))) {}

  std::vector<torch::Tensor> run(const torch::Tensor& input) override {
    auto x = bn1(conv1(input)).relu_();
    x = torch::max_pool2d(x, 3, 2, 1);
    x = layer4->forward(layer3->forward(layer2->forward(layer1->forward(x))));
    return {fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1))};
  }

  torch::Tensor loss(const std::vector<torch::Tensor>& output, const torch::Tensor& target) override {
    return torch::nn::functional::cross_entropy(output[0], target);
  }

  static int64_t count(const Json& sizes, const char* name) { return static_cast<int64_t>(sizes[name].as_number()); }

  static nn::Sequential layer(int64_t in, int64_t width, int blocks, int64_t stride) {
    nn::Sequential made;
    for (int i = 0; i < blocks; ++i) made->push_back(Bottleneck(i == 0 ? in : 4 * width, width, i == 0 ? stride : 1));
    return made;
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc;
};

inline std::shared_ptr<Network> make_network(const std::string& workload, const Json& sizes) {
  if (workload == "mnist_cnn") return std::make_shared<MnistNetwork>(sizes);
  if (workload == "lstm") return std::make_shared<Recurrent>(sizes);
  if (workload == "conv_chain") return std::make_shared<ConvolutionChain>(sizes);
  if (workload == "resnet50") return std::make_shared<ResNet50>(sizes);
  return nullptr;
}

}  // namespace tare
