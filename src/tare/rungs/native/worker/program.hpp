// What a rung in C++ provides; worker.hpp does the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "json.hpp"
#include "npy.hpp"

namespace tare {

struct Failure : std::runtime_error {
  Failure(std::string cause, const std::string& message) : std::runtime_error(message), cause(std::move(cause)) {}
  std::string cause;
};

struct DeviceMemory {
  long long allocated_peak = 0;
  long long reserved_peak = 0;
};

// How long the device computes in one step (Net in tare/records/record.py); `reason` where that cannot be told.
struct Net {
  int64_t steps = 0;
  std::optional<double> busy_s;
  bool upper_bound = false;
  std::string method, reason;

  static Net unknown(const std::string& reason) {
    Net net;
    net.reason = reason;
    return net;
  }
};

class Program {
 public:
  virtual ~Program() = default;

  // One step; may return before the device has finished.
  virtual void step() = 0;
  // Waits for all that the steps have started.
  virtual void synchronize() {}
  // Waits until the device has finished all work of this process, in whatever stream; false where nothing tells.
  virtual bool drain() { return false; }
  // Whether steps run ahead of a device, so that a pipelined block needs several of them.
  virtual bool overlaps() const { return false; }
  // Device time of a block in nanoseconds, between `mark_start` and `mark_end`; nothing where there are no events.
  virtual void mark_start() {}
  virtual void mark_end() {}
  virtual std::optional<int64_t> device_ns() { return std::nullopt; }
  // What the last step returned, on the host: cannot be had before the step has really finished.
  virtual Arrays fetch() = 0;
  // The sum of what the last step returned, NaN where that contains a NaN.
  virtual double checksum() {
    double sum = 0;
    for (const auto& [name, array] : fetch())
      for (float value : array.values) sum += value;
    return sum;
  }
  virtual bool trains() const { return false; }
  // Makes the next steps use one of the batches that were staged: overwrites what the step reads. Never timed.
  virtual void select(int64_t) {}
  // Initial weights and optimizer state again. Never timed.
  virtual void rewind() {}
  // In training: the gradient of the last step, and what all steps since `rewind` have changed, of every parameter.
  virtual Arrays state() { return {}; }
  // For a curve of losses: a new batch before each step. The arrays come in the order of the workload's arguments, the
  // target last, as float32 (class numbers as well).
  virtual void feed(const Arrays&) { throw Failure("unsupported", "this program takes no other batch"); }
  // For training by epochs: what it goes on from, by the names of the model in Python. `weight/NAME` are parameters and
  // buffers, `momentum/NAME` is that of SGD.
  virtual Arrays checkpoint() { throw Failure("unsupported", "the weights of this program cannot be saved"); }
  // Goes on from there, after `rewind`. What is not given stays as it is.
  virtual void restore(const Arrays&) { throw Failure("unsupported", "this program cannot start from given weights"); }
  virtual void mark_prepared() {}
  // Called once, after the timing, with the number of steps to profile.
  virtual Net net(int64_t) { return Net::unknown("no profiler sees into a C++ program on this device"); }
  virtual std::optional<DeviceMemory> device_memory() { return std::nullopt; }
};

// Makes the program of a job; time spent in here is building.
std::unique_ptr<Program> make_program(const Json& job);

}  // namespace tare
