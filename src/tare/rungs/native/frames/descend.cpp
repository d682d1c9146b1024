// What a frame costs that does nothing but stand on the stack: a step descends through `batch` calls by way of
// pointers, as a dispatcher's calls are, and comes back. The slope over `batch` is the price of one frame.
#include "../worker/worker.hpp"

namespace tare {

class Descent : public Program {
 public:
  explicit Descent(long depth) : depth_(depth) {}

  void step() override { reached_ = next_(depth_, this); }

  Arrays fetch() override { return {{"output/0", {{1}, {static_cast<float>(reached_)}}}}; }
  Arrays evidence() override { return fetch(); }

 private:
  using Next = long (*)(long, Descent*);

  // The sum behind the call keeps it from becoming a jump, the pointer from being inlined.
  __attribute__((noinline)) static long down(long left, Descent* self) {
    if (left <= 1) return 1;
    return self->next_(left - 1, self) + 1;
  }

  long depth_;
  volatile Next next_ = down;
  long reached_ = 0;
};

std::unique_ptr<Program> make_program(const Json& job) {
  return std::make_unique<Descent>(static_cast<long>(job["case"]["batch"].as_number()));
}

}  // namespace tare

int main() { return tare::work(); }
