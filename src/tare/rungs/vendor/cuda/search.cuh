// Finds the fastest of several calls by timing them once. Results are cached on disk by device, library versions and key.
#pragma once

#include <filesystem>
#include <fstream>
#include <limits>

#include "device.cuh"

namespace tare::vendor {

// A choice that is made before the workspace has its final address, and bound to it afterwards.
using Binding = std::function<Call()>;

class Search {
 public:
  explicit Search(Device& device) : device_(device) {
    if (device.cache_folder.empty()) return;
    std::filesystem::create_directories(device.cache_folder);
    // The cache stores a candidate's index, so the file name changes whenever the candidates do.
    path_ = device.cache_folder + "/vendor2-" + std::to_string(std::hash<std::string>()(device.name)) + ".txt";
    std::ifstream file(path_);
    std::string key;
    for (int answer; file >> key >> answer;) known_[key] = answer;
  }

  // The index of the fastest candidate. A candidate that cannot run returns an empty call or throws.
  int fastest(const std::string& key, int count, const std::function<Call(int)>& candidate) {
    if (auto entry = known_.find(key); entry != known_.end() && entry->second < count) return entry->second;
    int best = -1;
    float least = std::numeric_limits<float>::infinity();
    for (int i = 0; i < count; ++i) {
      try {
        Call call = candidate(i);
        if (!call) continue;
        float spent = time(call, least);
        if (spent < least) least = spent, best = i;
      } catch (const std::exception&) {
        // This engine does not support it. An error of the device itself is sticky and shows again.
        (void)cudaGetLastError();
      }
    }
    if (best < 0) throw Failure("unsupported", "no algorithm runs " + key);
    known_[key] = best;
    ++searched;
    return best;
  }

  // Written to a temporary file and renamed: processes that search at the same time repeat work but break nothing.
  void save() const {
    if (path_.empty() || !searched) return;
    std::string aside = path_ + "." + std::to_string(::getpid());
    {
      std::ofstream file(aside);
      for (const auto& [key, answer] : known_) file << key << ' ' << answer << '\n';
    }
    std::filesystem::rename(aside, path_);
  }

  int searched = 0;

 private:
  float time(const Call& call, float least) {
    call();
    check(cudaStreamSynchronize(device_.stream), "the first run of an algorithm");
    float best = std::numeric_limits<float>::infinity();
    for (int repeat = 0; repeat < 3; ++repeat) {
      cudaEvent_t start, end;
      check(cudaEventCreate(&start), "cudaEventCreate");
      check(cudaEventCreate(&end), "cudaEventCreate");
      check(cudaEventRecord(start, device_.stream), "cudaEventRecord");
      for (int i = 0; i < 4; ++i) call();
      check(cudaEventRecord(end, device_.stream), "cudaEventRecord");
      check(cudaStreamSynchronize(device_.stream), "timing an algorithm");
      float spent = 0;
      check(cudaEventElapsedTime(&spent, start, end), "cudaEventElapsedTime");
      check(cudaEventDestroy(start), "cudaEventDestroy");
      check(cudaEventDestroy(end), "cudaEventDestroy");
      best = std::min(best, spent);
      // Clearly slower than the best candidate.
      if (best > 2 * least) break;
    }
    return best;
  }

  Device& device_;
  std::string path_;
  std::map<std::string, int> known_;
};

}  // namespace tare::vendor
