// Threads that share the rows of one kernel. They sleep between kernels, so that nothing of the program runs after a step.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tare::ops {

class Team {
 public:
  using Task = std::function<void(int64_t, int64_t)>;

  explicit Team(int threads) {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
  }

  ~Team() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      ends_ = true;
    }
    start_.notify_all();
    for (auto& helper : helpers_) helper.join();
  }

  // Calls `task(begin, end)` for parts of the rows, the caller's thread among the others. Returns when all are done.
  void share(int64_t rows, int64_t pieces, const Task& task) {
    pieces = std::min<int64_t>(pieces, rows);
    if (helpers_.empty() || pieces < 2) return task(0, rows);
    {
      std::lock_guard<std::mutex> hold(mutex_);
      task_ = &task;
      rows_ = rows;
      pieces_ = pieces;
      next_ = 0;
      working_ = static_cast<int>(helpers_.size());
      ++round_;
    }
    start_.notify_all();
    work();
    std::unique_lock<std::mutex> hold(mutex_);
    done_.wait(hold, [this] { return working_ == 0; });
  }

 private:
  void help() {
    int64_t seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> hold(mutex_);
        start_.wait(hold, [&] { return ends_ || round_ != seen; });
        if (ends_) return;
        seen = round_;
      }
      work();
      std::lock_guard<std::mutex> hold(mutex_);
      if (--working_ == 0) done_.notify_one();
    }
  }

  void work() {
    for (int64_t piece = next_++; piece < pieces_; piece = next_++)
      (*task_)(rows_ * piece / pieces_, rows_ * (piece + 1) / pieces_);
  }

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const Task* task_ = nullptr;
  int64_t rows_ = 0, pieces_ = 0, round_ = 0;
  std::atomic<int64_t> next_{0};
  int working_ = 0;
  bool ends_ = false;
};

}  // namespace tare::ops
