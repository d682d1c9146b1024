// The vendor rung's program: memory is allocated once, and a step is a list of calls. No framework, no dispatch and no
// allocation in the step.
#pragma once

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "half.hpp"
#include "plan.hpp"

namespace tare::vendor {

using Call = std::function<void()>;

// What a device provides: memory, and calls for every op.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual char* allocate(int64_t bytes) = 0;
  // Host memory that a step copies its batch from.
  virtual char* allocate_host(int64_t bytes, bool pinned) = 0;
  virtual void upload(char* to, const char* from, int64_t bytes) = 0;
  virtual void download(char* to, const char* from, int64_t bytes) = 0;
  virtual void set(char* to, int byte, int64_t bytes) = 0;
  // Between two places on the device, in the order of the step's calls.
  virtual void copy(char* to, const char* from, int64_t bytes) = 0;
  // Called once all values have addresses. An op may need several calls; `names` gets one entry per call.
  virtual std::vector<Call> compile(const ExecutionPlan& plan, std::vector<std::string>& names) = 0;
  // A copy of the batch that is part of the step.
  virtual Call feed(char* to, const char* from, int64_t bytes) = 0;
  // The step as it will be run: call by call, or captured into a graph.
  virtual Call finish(std::vector<Call> calls) {
    return [calls = std::move(calls)] {
      for (const auto& call : calls) call();
    };
  }
  // Seconds of the calls on the device, back to back, with the gaps between them; nothing where it cannot tell.
  virtual std::optional<double> device_seconds(const std::vector<Call>&, int64_t) { return std::nullopt; }
  virtual void synchronize() {}
  virtual bool drain() { return false; }
  virtual bool overlaps() const { return false; }
  virtual void mark_start() {}
  virtual void mark_end() {}
  virtual std::optional<int64_t> device_ns() { return std::nullopt; }
  virtual std::optional<DeviceMemory> memory() { return std::nullopt; }
};

inline std::string describe(const Op& op) {
  std::string result = op.kind + op.where();
  for (const char* role : {"x", "dy", "w", "y", "dx", "dw"})
    if (const Value* value = op.find(role)) {
      result += std::string(" ") + role;
      for (size_t d = 0; d < value->shape.size(); ++d) result += (d ? "x" : "") + std::to_string(value->shape[d]);
    }
  return result + (op.find("z") ? " +z" : "") + (op.activation().empty() ? "" : " " + op.activation());
}

class VendorProgram : public Program {
 public:
  VendorProgram(const Json& job, std::unique_ptr<Backend> backend)
      : plan_(job["stage"].as_text()), backend_(std::move(backend)), trains_(job["case"]["mode"].as_text() == "train") {
    for (const auto& [name, bytes] : plan_.regions) regions_[name] = backend_->allocate(std::max<int64_t>(bytes, 256));
    for (auto& value : plan_.values) value.data = regions_.at(value.region) + value.offset;
    reset();
    std::vector<Call> calls;
    std::string feed = job["case"]["feed"].as_text("device");
    if (feed != "device")
      for (auto& [value, bytes] : plan_.contents)
        if (value->region == "input") {
          char* host = backend_->allocate_host(value->bytes(), feed == "pinned");
          std::memcpy(host, bytes.data(), bytes.size());
          hosts_[value] = host;
          calls.push_back(backend_->feed(value->data, host, value->bytes()));
        }
    hold_batches(job["stage"].as_text());
    names_.resize(calls.size(), "feed");
    computing_ = backend_->compile(plan_, names_);
    calls.insert(calls.end(), computing_.begin(), computing_.end());
    // The search for algorithms has run ops on uninitialised memory.
    reset();
    if (const char* path = std::getenv("TARE_VENDOR_TIMES")) write_times(path, calls);
    run_ = backend_->finish(std::move(calls));
    reset();
  }

  void step() override { run_(); }

  Arrays fetch() override {
    Arrays arrays;
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      arrays.emplace_back("output/" + std::to_string(i), array(*plan_.outputs[i]));
    return arrays;
  }

  // In the order of memory, and into one buffer again and again: the logits of a language model take a gigabyte.
  double checksum() override {
    backend_->synchronize();
    double sum = 0;
    for (const Value* value : plan_.outputs) {
      landing_.resize(value->bytes());
      backend_->download(landing_.data(), value->data, value->bytes());
      with_numbers(*value, landing_.data(), [&](auto number) {
        for (int64_t i = 0; i < value->size; ++i) sum += number(i);
      });
    }
    return sum;
  }

  bool trains() const override { return trains_; }

  void select(int64_t batch) override {
    const auto& held = batches_.at(static_cast<size_t>(batch));
    for (size_t i = 0; i < held.size(); ++i) {
      Value* value = plan_.inputs[i];
      auto host = hosts_.find(value);
      if (host == hosts_.end()) backend_->copy(value->data, held[i], value->bytes());
      else std::memcpy(host->second, held[i], value->bytes());
    }
  }

  void rewind() override {
    restore();
    // 0xff bytes are NaN in every type: a call that reads memory which no call of its step has written shows in the result.
    fill("arena", 0xff);
    backend_->synchronize();
  }

  Arrays state() override {
    std::map<const Value*, Array> initial;
    for (const auto& [value, bytes] : plan_.contents)
      if (value->region == "master" || value->region == "fixed") initial[value] = logical(*value, bytes);
    Arrays arrays;
    for (const auto& parameter : plan_.parameters) {
      arrays.emplace_back("gradient/" + parameter.name, array(*parameter.gradient));
      if (plan_.updates) arrays.emplace_back("update/" + parameter.name, changed(*parameter.master, initial.at(parameter.master)));
    }
    if (!plan_.updates) return arrays;
    for (const auto& fixed : plan_.fixed) arrays.emplace_back("update/" + fixed.name, changed(*fixed.value, initial.at(fixed.value)));
    return arrays;
  }

  void feed(const Arrays& batch) override {
    if (batch.size() != plan_.inputs.size()) throw Failure("exception", "the staged batch has another number of arrays");
    for (size_t i = 0; i < batch.size(); ++i) {
      Value* value = plan_.inputs[i];
      std::vector<char> bytes = physical(*value, batch[i].second.values);
      backend_->synchronize();
      backend_->upload(value->data, bytes.data(), bytes.size());
      if (auto host = hosts_.find(value); host != hosts_.end()) std::memcpy(host->second, bytes.data(), bytes.size());
    }
  }

  Arrays checkpoint() override {
    Arrays arrays;
    for (const auto& [value, bytes] : plan_.contents)
      if (is_weight(*value)) arrays.emplace_back("weight/" + value->name, array(*value));
    for (const auto& parameter : plan_.parameters) arrays.emplace_back("momentum/" + parameter.name, array(momentum_of(parameter)));
    return arrays;
  }

  void restore(const Arrays& given) override {
    std::map<std::string, const Array*> saved;
    for (const auto& [name, values] : given) saved[name] = &values;
    for (const auto& [value, bytes] : plan_.contents) {
      // Copies of the weights in a half type as well, which the update keeps beside its masters.
      if (value->name.empty() || (!is_weight(*value) && value->region != "weights")) continue;
      auto entry = saved.find("weight/" + value->name);
      if (entry == saved.end()) throw Failure("exception", "the checkpoint has no weight " + value->name);
      put(*value, *entry->second);
    }
    for (const auto& parameter : plan_.parameters)
      if (auto entry = saved.find("momentum/" + parameter.name); entry != saved.end()) put(momentum_of(parameter), *entry->second);
  }

  // The time of each call in microseconds, repeated back to back.
  void write_times(const char* path, const std::vector<Call>& calls) {
    constexpr int repeats = 20;
    std::ofstream file(path);
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i]();
      backend_->synchronize();
      auto start = std::chrono::steady_clock::now();
      for (int repeat = 0; repeat < repeats; ++repeat) calls[i]();
      backend_->synchronize();
      std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
      file << spent.count() / repeats << ' ' << (i < names_.size() ? names_[i] : "") << '\n';
    }
  }

  Net net(int64_t steps) override {
    auto seconds = backend_->device_seconds(computing_, steps);
    if (!seconds) return Program::net(steps);
    Net net;
    net.steps = steps;
    net.busy_s = *seconds;
    net.upper_bound = true;
    net.method = "the time of the step as a CUDA graph, with the gaps between its kernels";
    return net;
  }

  void synchronize() override { backend_->synchronize(); }
  bool drain() override { return backend_->drain(); }
  bool overlaps() const override { return backend_->overlaps(); }
  void mark_start() override { backend_->mark_start(); }
  void mark_end() override { backend_->mark_end(); }
  std::optional<int64_t> device_ns() override { return backend_->device_ns(); }
  std::optional<DeviceMemory> device_memory() override { return backend_->memory(); }

 private:
  // Reads the batches that `select` chooses from: on the device, or in host memory where the step copies its batch.
  void hold_batches(const std::string& stage) {
    std::ifstream file(stage + "/batches.bin", std::ios::binary);
    while (file.peek() != std::ifstream::traits_type::eof()) {
      std::vector<char*> held;
      for (const Value* value : plan_.inputs) {
        std::vector<char> bytes(value->bytes());
        if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) throw Failure("exception", "batches.bin is too short");
        bool on_host = hosts_.count(value) > 0;
        held.push_back(on_host ? backend_->allocate_host(value->bytes(), false) : backend_->allocate(value->bytes()));
        if (on_host) std::memcpy(held.back(), bytes.data(), bytes.size());
        else backend_->upload(held.back(), bytes.data(), static_cast<int64_t>(bytes.size()));
      }
      batches_.push_back(std::move(held));
    }
  }

  // A parameter, or a buffer that the steps change.
  static bool is_weight(const Value& value) {
    return !value.name.empty() && (value.region == "master" || value.region == "fixed" || value.region == "state");
  }

  // The momentum of a parameter lies where the parameter lies in the region of the masters.
  Value momentum_of(const Parameter& parameter) const {
    Value value = *parameter.master;
    value.region = "momentum";
    value.data = regions_.at("momentum") + value.offset;
    return value;
  }

  void put(const Value& value, const Array& saved) {
    std::vector<char> bytes = physical(value, saved.values);
    backend_->synchronize();
    backend_->upload(value.data, bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  void reset() {
    backend_->synchronize();
    for (const auto& [value, bytes] : plan_.contents)
      if (value->region == "input") backend_->upload(value->data, bytes.data(), bytes.size());
    restore();
    backend_->synchronize();
  }

  // Initial weights and statistics, and no momentum.
  void restore() {
    for (const char* region : {"momentum", "zeros"}) fill(region, 0);
    for (const auto& [value, bytes] : plan_.contents)
      if (value->region != "input") backend_->upload(value->data, bytes.data(), bytes.size());
  }

  void fill(const char* region, int byte) {
    auto entry = plan_.regions.find(region);
    if (entry != plan_.regions.end()) backend_->set(regions_.at(region), byte, entry->second);
  }

  Array changed(const Value& value, const Array& before) {
    Array now = array(value);
    for (size_t i = 0; i < now.values.size(); ++i) now.values[i] -= before.values[i];
    return now;
  }

  Array array(const Value& value) { return logical(value, read(value)); }

  std::vector<char> read(const Value& value) {
    backend_->synchronize();
    std::vector<char> bytes(value.bytes());
    backend_->download(bytes.data(), value.data, bytes.size());
    return bytes;
  }

  // Calls `visit(index in the logical shape, offset in memory)` for every element.
  template <class Visit>
  static void elements(const Value& value, Visit visit) {
    std::vector<int64_t> index(value.shape.size(), 0);
    for (int64_t i = 0; i < value.size; ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * value.strides[d];
      visit(i, at);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < value.shape[d]) break;
        index[d] = 0;
      }
    }
  }

  // Calls `use` with what reads the number at a place in memory: the type is looked at once, not for every number.
  template <class Use>
  static void with_numbers(const Value& value, const char* bytes, Use use) {
    if (value.dtype == "f32") {
      use([bytes](int64_t at) { return number_at<float>(bytes, at); });
    } else if (value.dtype == "i64") {
      use([bytes](int64_t at) { return static_cast<float>(number_at<int64_t>(bytes, at)); });
    } else {
      bool brain = value.dtype == "bf16";
      use([=](int64_t at) { return half_to_float(number_at<uint16_t>(bytes, at), brain); });
    }
  }

  template <class T>
  static T number_at(const char* bytes, int64_t at) {
    T number;
    std::memcpy(&number, bytes + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return number;
  }

  static bool in_order(const Value& value) {
    int64_t stride = 1;
    for (size_t d = value.shape.size(); d-- > 0; stride *= value.shape[d])
      if (value.shape[d] != 1 && value.strides[d] != stride) return false;
    return true;
  }

  static Array logical(const Value& value, const std::vector<char>& bytes) {
    Array result{value.shape, std::vector<float>(value.size)};
    with_numbers(value, bytes.data(), [&](auto number) {
      if (in_order(value))
        for (int64_t i = 0; i < value.size; ++i) result.values[i] = number(i);
      else
        elements(value, [&](int64_t i, int64_t at) { result.values[i] = number(at); });
    });
    return result;
  }

  static std::vector<char> physical(const Value& value, const std::vector<float>& numbers) {
    if (static_cast<int64_t>(numbers.size()) != value.size) throw Failure("exception", "the staged batch has another size");
    std::vector<char> result(value.bytes());
    elements(value, [&](int64_t i, int64_t at) {
      int64_t whole = static_cast<int64_t>(numbers[i]);
      uint16_t bits = float_to_half(numbers[i], value.dtype == "bf16");
      if (value.dtype == "f32") std::memcpy(result.data() + 4 * at, &numbers[i], 4);
      else if (value.dtype == "i64") std::memcpy(result.data() + 8 * at, &whole, 8);
      else if (value.dtype == "u8") result[at] = static_cast<char>(whole);
      else std::memcpy(result.data() + 2 * at, &bits, 2);
    });
    return result;
  }

  ExecutionPlan plan_;
  std::unique_ptr<Backend> backend_;
  bool trains_;
  std::map<std::string, char*> regions_;
  // The host buffers of inputs that the step copies to the device.
  std::map<const Value*, char*> hosts_;
  // Copies of every batch, in the order of the plan's inputs.
  std::vector<std::vector<char*>> batches_;
  std::vector<char> landing_;
  // A description of each call, for `write_times`.
  std::vector<std::string> names_;
  // The calls of a step without the copies that feed it.
  std::vector<Call> computing_;
  Call run_;
};

}  // namespace tare::vendor
