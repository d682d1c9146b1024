// Timed blocks of steps, as tare/measure/clock.py has them.
#pragma once

#include <chrono>

#include "program.hpp"

namespace tare {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Series {
  std::string kind;
  std::string stop = "budget";
  std::vector<int64_t> steps, wall_ns, at_ns, device_ns;
  std::vector<double> per_step;

  std::string json() const {
    bool device = !device_ns.empty() && device_ns.size() == wall_ns.size();
    return "{\"kind\":" + json_text(kind) + ",\"stop\":" + json_text(stop) + ",\"steps\":" + json_list(steps) +
           ",\"wall_ns\":" + json_list(wall_ns) + ",\"at_ns\":" + json_list(at_ns) +
           ",\"device_ns\":" + (device ? json_list(device_ns) : "null") + "}";
  }
};

inline int64_t time_block(Program& program, int64_t steps, Series* into = nullptr) {
  program.synchronize();
  int64_t start = now_ns();
  program.mark_start();
  for (int64_t i = 0; i < steps; ++i) program.step();
  program.mark_end();
  program.synchronize();
  int64_t wall = now_ns() - start;
  if (into) {
    into->steps.push_back(steps);
    into->wall_ns.push_back(wall);
    into->at_ns.push_back(start);
    into->per_step.push_back(static_cast<double>(wall) / steps);
    if (auto device = program.device_ns()) into->device_ns.push_back(*device);
  }
  return wall;
}

}  // namespace tare
