// The evidence of a round, taken of timed steps, as tare/worker/evidence.py has it: the batch changes before every block,
// and the results of blocks that are chosen at random are kept.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "clock.hpp"

namespace tare {

// Every k-th number of a large array, as tare/measure/parity.py thins it: k is prime.
inline Array thinned(Array array) {
  constexpr int64_t most = 1 << 20;
  int64_t count = static_cast<int64_t>(array.values.size()), step = (count + most - 1) / most;
  auto composite = [](int64_t n) {
    for (int64_t k = 2; k * k <= n; ++k)
      if (n % k == 0) return true;
    return false;
  };
  while (step > 1 && composite(step)) ++step;
  if (step <= 1) return array;
  Array result;
  for (int64_t i = 0; i < count; i += step) result.values.push_back(array.values[i]);
  result.shape = {static_cast<int64_t>(result.values.size())};
  return result;
}

class TimedEvidence {
 public:
  static constexpr int64_t evidence_steps = 3;

  explicit TimedEvidence(Program& program)
      : program_(program), random_(std::random_device{}()), verified_before_(static_cast<int64_t>(random_() % 3)) {}

  void begin(const std::string& kind) {
    kind_ = kind;
    block_ = 0;
    rewind();
  }

  // Times one block. The rest of what happens here is not timed.
  void time(int64_t steps, Series& into) {
    bool trains = program_.trains();
    if (trains && kind_ != "warmup" && verified_ != kind_ && block_ == verified_before_) verify_updates();
    batch_ = rotation_++ % batches;
    program_.select(batch_);
    // Of training only single steps from the initial weights can be compared.
    bool keep = kind_ != "warmup" && (!trains || steps == 1) && chosen();
    if (trains && (keep || steps_ + steps > most_steps)) rewind();
    time_block(program_, steps, &into);
    steps_ += steps;
    if (kind_ != "warmup") look(keep);
    ++block_;
  }

  bool has_nan() const { return has_nan_; }
  Arrays arrays() const { return {arrays_.begin(), arrays_.end()}; }

 private:
  // The constants of tare/worker/evidence.py.
  static constexpr int64_t batches = 3, most_steps = 64, most_deviating = 4;
  static constexpr double sum_tolerance = 1e-3, looking_share = 0.25;

  void look(bool keep) {
    int64_t began = now_ns();
    if (keep || looking_ns_ <= looking_share * (began - began_ns_)) {
      double sum = program_.checksum();
      // The sum of opposite infinities is NaN as well.
      bool nan = std::isnan(sum) && fetched_nan();
      if (program_.trains() && !keep) {
        if (nan) steps_ = most_steps;
      } else {
        has_nan_ = has_nan_ || nan;
        // A number for each kind and parity, so that a later choice replaces the earlier one.
        int64_t sample = (kind_ == "latency" ? 2 : 0) + block_ % 2;
        if (!program_.trains() && deviates(sum)) {
          ++deviating_;
          keep = keep || deviating_ <= most_deviating;
          sample = 4 + deviating_ % most_deviating;
        }
        if (keep) keep_result(1, sample);
      }
    }
    looking_ns_ += now_ns() - began;
  }

  void keep_result(int64_t steps, int64_t sample) {
    std::string at = "@" + std::to_string(batch_) + "#" + std::to_string(sample);
    Arrays results = program_.fetch();
    if (program_.trains()) {
      arrays_["loss/" + std::to_string(steps) + at] = std::move(results.at(0).second);
      // A later choice replaces the earlier one.
      if (batch_ == 0) keep_state("gradient/");
      return;
    }
    for (auto& [name, array] : results) arrays_[name + at] = thinned(std::move(array));
  }

  void verify_updates() {
    verified_ = kind_;
    batch_ = 0;
    program_.select(0);
    rewind();
    time_block(program_, evidence_steps);
    has_nan_ = has_nan_ || std::isnan(program_.checksum());
    const char* sample = kind_ == "pipelined" ? "@0#1" : "@0#2";
    arrays_["loss/" + std::to_string(evidence_steps) + sample] = std::move(program_.fetch().at(0).second);
    keep_state("update/");
    rewind();
  }

  void keep_state(const std::string& kind) {
    for (auto& [name, array] : program_.state())
      if (name.rfind(kind, 0) == 0) arrays_[name] = thinned(std::move(array));
  }

  bool fetched_nan() {
    for (const auto& [name, array] : program_.fetch())
      for (float value : array.values)
        if (std::isnan(value)) return true;
    return false;
  }

  void rewind() {
    program_.rewind();
    steps_ = 0;
  }

  // Of every kind, batch and parity one block is kept in the end, each with the same probability.
  bool chosen() {
    int64_t seen = ++seen_[{kind_, batch_, block_ % 2}];
    return std::uniform_int_distribution<int64_t>(1, seen)(random_) == 1;
  }

  bool deviates(double sum) {
    double first = sums_.try_emplace(batch_, sum).first->second;
    return !(std::abs(sum - first) <= sum_tolerance * std::max(std::abs(sum), std::abs(first)));
  }

  Program& program_;
  std::mt19937_64 random_;
  std::string kind_;
  // The series whose block of several updates was kept last.
  std::string verified_;
  int64_t rotation_ = 0, block_ = 0, batch_ = 0, steps_ = 0, deviating_ = 0, looking_ns_ = 0, verified_before_;
  const int64_t began_ns_ = now_ns();
  bool has_nan_ = false;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> seen_;
  std::map<int64_t, double> sums_;
  std::map<std::string, Array> arrays_;
};

}  // namespace tare
