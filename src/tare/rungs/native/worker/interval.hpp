// The interval of a median, as tare/stats/intervals.py has it: order statistics, with the number of samples divided by
// the autocorrelation time of their signs. tests/native compares the two on the same numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tare {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline double sign_correlation_time(const std::vector<double>& values, double middle) {
  size_t n = values.size();
  std::vector<int> signs(n);
  double power = 0;
  for (size_t i = 0; i < n; ++i) {
    signs[i] = (values[i] > middle) - (values[i] < middle);
    power += signs[i] * signs[i];
  }
  if (n < 4 || power == 0) return 1;
  auto correlation = [&](size_t lag) {
    long long sum = 0;
    for (size_t i = 0; i + lag < n; ++i) sum += signs[i] * signs[i + lag];
    return static_cast<double>(sum) / power;
  };
  double total = 0;
  size_t window = 0;
  for (size_t k = 0; k + 1 < n; k += 2) {
    double pair = correlation(k) + correlation(k + 1);
    if (pair <= 0) break;
    total += pair;
    window = k + 1;
  }
  double time = (2 * total - 1) * (1 + (2.0 * window + 1) / n);
  return std::min(std::max(time, 1.0), static_cast<double>(n));
}

// The largest 0-based rank whose order statistic is under the median with probability over 97.5 %; -1 if there is none.
inline int lower_rank(int n) {
  double below = 0;
  int rank = -1;
  for (int k = 0; k <= n / 2; ++k) {
    below += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) - n * std::log(2.0));
    if (below > 0.025) break;
    rank = k;
  }
  return rank;
}

// Half the width of the 95 % interval as a share of the median; infinite where the samples do not support one.
inline double relative_width(std::vector<double> values) {
  double middle = median(values);
  int independent = static_cast<int>(values.size() / sign_correlation_time(values, middle));
  int rank = lower_rank(independent);
  if (rank < 0 || middle <= 0) return std::numeric_limits<double>::infinity();
  std::sort(values.begin(), values.end());
  size_t low = static_cast<size_t>(rank) * values.size() / independent;
  return (values[values.size() - 1 - low] - values[low]) / 2 / middle;
}

}  // namespace tare
