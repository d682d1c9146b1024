// Net of a LibTorch program on a GPU, by the profiler that torch.profiler is built on (tare/measure/profiler.py).
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <set>

#include "../native/worker/program.hpp"

namespace tare {

// Whether a device activity computes: kernels, memsets and copies within the device do, other copies do not.
inline bool computes(const std::string& name) {
  auto begins = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  if (begins("Memcpy")) return begins("Memcpy DtoD");
  return !begins("Context Sync") && !begins("Event Sync") && !begins("Stream Sync");
}

inline Net kernel_time(Program& program, int64_t steps) {
  namespace profiler = torch::autograd::profiler;
  namespace impl = torch::profiler::impl;
  impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  std::set<impl::ActivityType> activities{impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  // The profiler may lose kernels of the first step that it sees.
  program.step();
  program.synchronize();
  profiler::enableProfiler(config, activities);
  for (int64_t i = 0; i < steps; ++i) program.step();
  program.synchronize();
  auto result = profiler::disableProfiler();
  std::vector<std::pair<uint64_t, uint64_t>> intervals;
  for (const auto& event : result->events())
    if (event.deviceType() == c10::DeviceType::CUDA && computes(event.name())) intervals.emplace_back(event.startNs(), event.endNs());
  if (intervals.empty()) return Net::unknown("the profiler saw no kernel");
  std::sort(intervals.begin(), intervals.end());
  uint64_t busy = 0, reached = 0;
  for (const auto& [start, end] : intervals) {
    if (end <= reached) continue;
    busy += end - std::max(start, reached);
    reached = end;
  }
  Net net;
  net.steps = steps;
  net.busy_s = static_cast<double>(busy) / steps / 1e9;
  net.method = "union of kernels";
  return net;
}

}  // namespace tare
