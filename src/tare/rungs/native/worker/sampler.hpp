// The sampler, as tare/measure/sampler.py has it: warm up until steady, then time blocks until the median is known well
// enough or the budget is spent.
#pragma once

#include <functional>

#include "evidence.hpp"
#include "interval.hpp"

namespace tare {

class Sampler {
 public:
  Sampler(Program& program, TimedEvidence& evidence, double budget_s, double width)
      : program_(program), evidence_(evidence), budget_s_(budget_s), width_(width) {}

  void run(const std::function<void(const Series&)>& report) {
    Series warm{"warmup"};
    int64_t steps = warm_up(warm);
    report(warm);
    double sampling = budget_s_ * 0.75;
    pipelined_steps = steps;
    Series pipelined{"pipelined"};
    fill(pipelined, steps, sampling * 0.75);
    report(pipelined);
    pipelined_step_s = median(pipelined.per_step) / 1e9;
    Series latency{"latency"};
    fill(latency, 1, sampling * 0.25);
    report(latency);
    latency_s = median(latency.per_step) / 1e9;
  }

  int64_t pipelined_steps = 1;
  double pipelined_step_s = 0, latency_s = 0;

 private:
  static constexpr int most_blocks = 2000, fewest_blocks = 3, window = 5;

  int64_t warm_up(Series& warm) {
    double at_least = program_.overlaps() ? 0.3 : 0.0;
    double cap = std::max(budget_s_ * 0.25, at_least);
    int64_t began = now_ns(), steps = 1;
    evidence_.begin(warm.kind);
    evidence_.time(1, warm);
    for (;;) {
      evidence_.time(steps, warm);
      size_t n = warm.per_step.size();
      steps = block_steps(*std::min_element(warm.per_step.end() - std::min<size_t>(n, 3), warm.per_step.end()));
      double spent = (now_ns() - began) / 1e9;
      if (spent >= at_least && steady(warm.per_step)) {
        warm.stop = "steady";
        return steps;
      }
      if ((spent >= cap && n >= fewest_blocks) || n >= most_blocks) {
        warm.stop = "unsteady";
        return steps;
      }
    }
  }

  int64_t block_steps(double step_ns) const {
    step_ns = std::max(step_ns, 1.0);
    double wanted = std::max(1e6, budget_s_ * 0.75 * 0.75 * 1e9 / most_blocks);
    int64_t fewest = 1;
    if (program_.overlaps()) {
      wanted = std::max(wanted, 50e6);
      fewest = 10;
    }
    int64_t steps = std::max<int64_t>(static_cast<int64_t>(std::ceil(wanted / step_ns)), fewest);
    int64_t affordable = static_cast<int64_t>(budget_s_ * 1e9 / 2 / 10 / step_ns);
    return std::max<int64_t>(std::min(steps, affordable), program_.overlaps() ? 2 : 1);
  }

  static bool steady(const std::vector<double>& per_step) {
    if (per_step.size() < 2 * window) return false;
    double before = median({per_step.end() - 2 * window, per_step.end() - window});
    double after = median({per_step.end() - window, per_step.end()});
    return std::abs(after - before) <= 0.02 * before;
  }

  void fill(Series& into, int64_t steps, double budget_s) {
    int64_t began = now_ns();
    size_t look = 8;
    evidence_.begin(into.kind);
    for (;;) {
      evidence_.time(steps, into);
      size_t taken = into.per_step.size();
      double spent = (now_ns() - began) / 1e9;
      bool full = taken >= most_blocks;
      if (full || (taken >= look && spent >= 0.1 * budget_s)) {
        look = 2 * taken;
        if (relative_width(into.per_step) <= width_) {
          into.stop = "width";
          return;
        }
      }
      if (full || (taken >= fewest_blocks && spent >= budget_s)) return;
    }
  }

  Program& program_;
  TimedEvidence& evidence_;
  double budget_s_, width_;
};

}  // namespace tare
