// A rung in forty lines: a worker whose step spins for a known time. tests/rungs/native builds and runs it.
//     c++ -std=c++20 -O2 -I src/tare/rungs spinner.cpp -o spinner
#include "native/worker/worker.hpp"

namespace tare {

class Spinner : public Program {
 public:
  explicit Spinner(int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  void step() override {
    int64_t end = now_ns() + nanoseconds_;
    while (now_ns() < end) {
    }
    ++count_;
  }

  Arrays fetch() override { return {{"output/0", {{1}, {static_cast<float>(count_ > 0)}}}}; }

 private:
  int64_t nanoseconds_;
  long count_ = 0;
};

std::unique_ptr<Program> make_program(const Json& job) {
  // The batch is the length of the step in microseconds.
  return std::make_unique<Spinner>(static_cast<int64_t>(job["case"]["batch"].as_number()) * 1000);
}

}  // namespace tare

int main() { return tare::work(); }
