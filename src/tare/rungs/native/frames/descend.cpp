// The cost of a native stack frame: a step makes `batch` nested calls through pointers, as a dispatcher does, and returns.
// The slope over `batch` is the cost of one frame.
#include "../worker/worker.hpp"

namespace tare {

class Descent : public Program {
 public:
  explicit Descent(long depth) : depth_(depth) {}

  void step() override { reached_ = next_(depth_, this); }

  Arrays fetch() override { return {{"output/0", {{1}, {static_cast<float>(reached_)}}}}; }

 private:
  using Next = long (*)(long, Descent*);

  // The sum after the call prevents a tail call, and the pointer prevents inlining.
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
