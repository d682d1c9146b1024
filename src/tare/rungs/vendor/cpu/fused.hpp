// Calls beside generated kernels: the kernels of a plan, from a library beside it, and products and rows at any strides.
#pragma once

#include <dlfcn.h>

#include "../ops/kernels.hpp"
#include "../ops/products.hpp"
#include "../ops/rows.hpp"
#include "values.hpp"

namespace tare::vendor {

class KernelLibrary {
 public:
  explicit KernelLibrary(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw Failure("exception", std::string("cannot load the generated kernels: ") + dlerror());
  }
  ~KernelLibrary() { dlclose(handle_); }

  ops::Kernel find(const std::string& name) const {
    void* symbol = dlsym(handle_, name.c_str());
    if (!symbol) throw Failure("exception", "the generated kernels lack " + name);
    return reinterpret_cast<ops::Kernel>(symbol);
  }

 private:
  void* handle_;
};

inline Call fused(const Op& op, const KernelLibrary& library, ops::Team& team) {
  auto kernel = library.find(op.attributes["kernel"].as_text());
  std::vector<char*> buffers;
  for (size_t i = 0; i < op.in.size(); ++i) buffers.push_back(op["i" + std::to_string(i)].data);
  for (size_t i = 0; i < op.out.size(); ++i) buffers.push_back(op["o" + std::to_string(i)].data);
  int64_t rows = op.integer("rows"), work = op.integer("work");
  return [=, &team] { ops::run_kernel(team, kernel, buffers.data(), rows, work); };
}

inline Call matmul(const Op& op) {
  ops::Product product(op.integer("m"), op.integer("n"), op.integer("k"), op.integers("batch"), op.integers("a_strides"),
                       op.integers("b_strides"), static_cast<float>(op.number("alpha")));
  const float *a = floats(op, "a") + op.integer("a_offset"), *b = floats(op, "b") + op.integer("b_offset");
  float* y = op["y"].as<float>();
  return [=] { ops::matmul(a, b, y, product); };
}

inline ops::Rows rows_of(const Op& op) {
  int64_t rows = op["y"].shape[0];
  return {op["index"].size, rows, op["y"].size / rows};
}

inline Call add_rows(const Op& op) {
  const float *x = floats(op, "x"), *base = floats(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  float* y = op["y"].as<float>();
  int64_t skip = op.integer("skip");
  auto shape = rows_of(op);
  return [=] { ops::add_rows(x, index, base, y, shape, skip); };
}

inline Call put_rows(const Op& op) {
  const float *x = floats(op, "x"), *base = floats(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  float* y = op["y"].as<float>();
  auto shape = rows_of(op);
  return [=] { ops::put_rows(x, index, base, y, shape); };
}

inline Call scatter(const Op& op) {
  static const std::map<std::string, ops::Scattering> operations = {
      {"put", ops::Scattering::put},   {"sum", ops::Scattering::sum},   {"mean", ops::Scattering::mean},
      {"amax", ops::Scattering::amax}, {"amin", ops::Scattering::amin},
  };
  const float *x = floats(op, "x"), *base = floats(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  float* y = op["y"].as<float>();
  int64_t count = op.integer("count"), inner = op.integer("inner"), outer = op["x"].size / (count * inner);
  ops::Scatter shape{outer, count, op["y"].size / (outer * inner), inner, operations.at(op.attributes["operation"].as_text()),
                     op.attributes["include_self"].boolean};
  return [=] { ops::scatter(x, index, base, y, shape); };
}

inline Call bag_rows(const Op& op) {
  const float* w = floats(op, "w");
  const int64_t *index = op["index"].as<int64_t>(), *offsets = op["offsets"].as<int64_t>();
  float* y = op["y"].as<float>();
  int64_t* bag_of = op.find("bag") ? op["bag"].as<int64_t>() : nullptr;
  int64_t* sizes = op.find("sizes") ? op["sizes"].as<int64_t>() : nullptr;
  ops::Bags shape{op["index"].size, op["y"].shape[0], op["y"].shape[1], op.attributes["mean"].boolean};
  return [=] { ops::bag_rows(w, index, offsets, y, bag_of, sizes, shape); };
}

inline Call order(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  int64_t* places = op["places"].as<int64_t>();
  int64_t width = op["x"].shape.back(), kept = op["y"].shape.back(), rows = op["x"].size / width;
  bool falling = op.attributes["falling"].boolean;
  return [=] { ops::order(x, y, places, rows, width, kept, falling); };
}

template <class T>
Call place_of_extreme(const Op& op) {
  const T* x = op["x"].as<T>();
  int64_t* y = op["y"].as<int64_t>();
  int64_t rows = op["y"].size, width = op["x"].size / rows;
  bool smallest = op.attributes["smallest"].boolean;
  return [=] { ops::place_of_extreme(x, y, rows, width, smallest); };
}

template <class T>
Call cumulate(const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  int64_t width = op["x"].shape.back(), rows = op["x"].size / width;
  return [=] { ops::cumulate(x, y, rows, width); };
}

}  // namespace tare::vendor
