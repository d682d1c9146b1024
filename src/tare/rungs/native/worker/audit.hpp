// The audit of a step that was just timed, as tare/worker/audit.py has it: had its work finished when the clock stopped,
// and was it work?
#pragma once

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "clock.hpp"

namespace tare {

constexpr size_t audit_tries = 3;

// Whether the device itself has nothing left to do after a block.
inline bool is_drained(Program& program, int64_t steps, int64_t allowed_ns) {
  std::vector<int64_t> waits;
  for (size_t read = 0; read < 5; ++read) {
    time_block(program, steps);
    int64_t start = now_ns();
    if (!program.drain()) return false;
    waits.push_back(now_ns() - start);
  }
  std::sort(waits.begin(), waits.end());
  return waits[waits.size() / 2] <= allowed_ns;
}

// Nothing can be fetched before it exists: a fetch that waits right behind a synchronised block shows that the block was
// not synchronised. Other processes delay this one: a delay before the end of the block gives the work time to end unseen,
// and one within the first fetch looks like work. So half of the blocks must leave nothing; and a short block of several
// must not be much shorter than the shortest of them with its first fetch. Where other processes have their turns on the
// device, every first fetch is delayed and has nothing to wait for: what the device itself says decides. Once is enough for a long block: a delay of
// some milliseconds hides little of it.
inline bool leaves_work_after(Program& program, int64_t steps) {
  constexpr size_t fewest = 5, most = 15;
  constexpr int64_t long_ns = 50'000'000, longest_ns = 2'000'000'000;
  auto quantile = [](std::vector<int64_t> values, size_t parts) {
    std::sort(values.begin(), values.end());
    return values[values.size() / parts];
  };
  // A CPU has finished when a step returns; its first read may still miss the caches.
  auto allowed = [&](int64_t block) { return std::max<int64_t>(block / (program.overlaps() ? 10 : 2), 50'000); };
  std::vector<int64_t> blocks, ends, fetches;
  size_t clean = 0;
  for (int64_t began = now_ns();;) {
    blocks.push_back(time_block(program, steps));
    int64_t start = now_ns();
    program.fetch();
    int64_t first = now_ns() - start;
    program.fetch();
    fetches.push_back(now_ns() - start - first);
    ends.push_back(blocks.back() + first);
    clean += first - fetches.back() <= allowed(blocks.back());
    int64_t block = quantile(blocks, 4);
    int64_t extra = *std::min_element(ends.begin(), ends.end()) - block - quantile(fetches, 2);
    if (2 * clean >= blocks.size() && extra <= allowed(block)) {
      if (blocks.size() >= fewest || block >= long_ns) return false;
    } else if (blocks.size() >= (now_ns() - began < longest_ns ? most : audit_tries)) {
      return !is_drained(program, steps, allowed(quantile(blocks, 2)));
    }
  }
}

// A device works off what was launched while the host launches more, so that of a long block little may be left. Short
// blocks are therefore looked at as well.
inline bool leaves_work_on_device(Program& program, int64_t steps) {
  if (program.overlaps())
    for (int64_t few : {1, 8})
      if (few < steps && leaves_work_after(program, few)) return true;
  return leaves_work_after(program, steps);
}

// Whether another thread of this process runs, or would run if a core were free. Where the kernel does not tell, whether
// the process uses CPU time while this thread sleeps.
inline bool others_work() {
  const std::filesystem::path tasks = "/proc/self/task";
  if (!std::filesystem::exists(tasks)) {
    std::clock_t cpu = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC > 0.0006;
  }
  // The first thread of a process has its number, and this runs in the first thread.
  std::string own = std::to_string(::getpid());
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream file(task.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.compare(name_end, 3, ") R") == 0 && task.path().filename() != own) return true;
  }
  return false;
}

inline double cpu_time_of_others() {
  auto seconds = [](clockid_t clock) {
    timespec time;
    ::clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
  };
  return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

// Seconds until no other thread of this process works, at most `longest_s` and no more than the CPU time that they took:
// on a busy machine a thread that often looks for work often waits for a core, and takes little time.
inline double seconds_until_quiet(double longest_s = 2.0) {
  constexpr double quiet_s = 0.008;
  int64_t began = now_ns();
  double last_busy = 0, cpu = cpu_time_of_others();
  for (double passed = 0; passed < longest_s; passed = (now_ns() - began) / 1e9) {
    if (others_work()) last_busy = passed;
    else if (passed - last_busy > quiet_s) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::min(last_busy, cpu_time_of_others() - cpu);
}

// Threads that run after a block spin or still work, and only work grows with the block.
inline bool leaves_work_in_threads(Program& program, double step_s) {
  auto steps = static_cast<int64_t>(std::min(std::max(0.1 / std::max(step_s, 1e-9), 1.0), 1000.0));
  for (size_t attempt = 0; attempt < audit_tries; ++attempt) {
    // On a busy machine, work that the samples have left in threads may take longer. It would pass for spinning.
    seconds_until_quiet(10.0);
    time_block(program, 1);
    double spinning = seconds_until_quiet();
    double timed = time_block(program, steps) / 1e9;
    // On a busy machine threads that only spin end late.
    if (seconds_until_quiet() - spinning <= std::max(timed / 2, 0.05)) return false;
  }
  return true;
}

// Whether a step works only when its batch is new: its time would be that of a lookup.
inline bool keeps_results(Program& program, int64_t steps) {
  constexpr int64_t batches = 3;
  steps = std::min<int64_t>(steps, 64);
  auto rotate = [&](bool stepping) {
    program.synchronize();
    int64_t start = now_ns();
    for (int64_t i = 0; i < steps; ++i) {
      program.select(i % batches);
      if (stepping) program.step();
    }
    program.synchronize();
    return now_ns() - start;
  };
  for (size_t attempt = 0; attempt < audit_tries; ++attempt) {
    int64_t usual = 0;
    for (int64_t batch = 0; batch < batches; ++batch) {
      program.select(batch);
      // The first step on a new batch is not part of the comparison.
      time_block(program, 1);
      usual = std::max(usual, time_block(program, steps));
    }
    int64_t selecting = rotate(false);
    if (rotate(true) - selecting <= 3 * usual + 20'000 * steps) return false;
  }
  return true;
}

inline void audit(Program& program, int64_t steps, double step_s, double latency_s) {
  if (leaves_work_on_device(program, steps))
    throw Failure("unsynchronised", "work went on after a block had been synchronised");
  if (leaves_work_in_threads(program, step_s))
    throw Failure("unsynchronised", "threads worked on after a block: the step does not wait for its work");
  // Every block of the latency has a new batch. Where the host waits for a device, latency is larger anyway.
  if (steps > 1 && latency_s > 2 * step_s + 20e-6 && keeps_results(program, steps))
    throw Failure("memoised", "a step takes much longer with a new batch: it keeps results instead of computing them");
}

}  // namespace tare
