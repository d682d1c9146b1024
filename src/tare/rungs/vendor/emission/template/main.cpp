// Loads the weights, runs the step, checks what it computes against the stored reference, and times it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "buffers.hpp"
#include "step.hpp"

namespace {

// A piece of a file that belongs into a region of memory.
struct Piece {
  int region;
  int64_t offset, bytes, at;
};

// A tensor of the reference: what a step from the initial weights on the batch `batch` must have left behind after `step`
// steps, as numbers or as the change of a weight.
struct Expected {
  bool is_change, channels_last;
  int64_t batch, step;
  int region;
  int64_t offset;
  std::vector<int64_t> shape;
  // Every how many numbers are compared, how many those are, and where they begin in reference.bin.
  int64_t every, count, at;
  double tolerance, floor;
  std::string name;
};

struct Options {
  int64_t steps = 50;
  int threads = static_threads;
  bool check_only = false;
  std::string data;
};

int region_of(const std::string& name) {
  for (int i = 0; i < region_count; ++i)
    if (name == regions[i].name) return i;
  throw std::runtime_error("data/index.txt names the region '" + name + "', which buffers.hpp lacks: emit both again");
}

class Data {
 public:
  explicit Data(const std::string& folder) : folder_(folder) {
    std::ifstream index(folder + "/index.txt");
    if (!index) throw std::runtime_error("cannot read " + folder + "/index.txt");
    for (std::string line; std::getline(index, line);) read(line);
    weights_ = whole(folder + "/weights.bin");
    batches_ = whole(folder + "/batches.bin");
    reference_ = whole(folder + "/reference.bin");
    bool is_cut = batch_bytes_ && static_cast<int64_t>(batches_.size()) % batch_bytes_;
    for (const Expected& tensor : expected_) is_cut = is_cut || tensor.batch >= batches();
    if (is_cut) throw std::runtime_error(folder + "/batches.bin is too short");
  }

  int64_t batches() const { return batch_bytes_ ? static_cast<int64_t>(batches_.size()) / batch_bytes_ : 1; }
  const std::vector<Expected>& expected() const { return expected_; }

  void load_weights() const {
    for (const Piece& piece : pieces_) copy(weights_, "weights.bin", piece.at, piece);
  }

  void load_batch(int64_t batch) const {
    int64_t at = batch * batch_bytes_;
    for (const Piece& piece : inputs_) {
      copy(batches_, "batches.bin", at, piece);
      at += piece.bytes;
    }
  }

  double reference(const Expected& tensor, int64_t i) const {
    double number;
    int64_t at = tensor.at + i * 8;
    if (at + 8 > static_cast<int64_t>(reference_.size())) throw std::runtime_error(folder_ + "/reference.bin is too short");
    std::memcpy(&number, reference_.data() + at, 8);
    return number;
  }

  // The initial number at an element of a region; 0 where nothing is loaded.
  float initial(int region, int64_t at) const {
    for (const Piece& piece : pieces_)
      if (piece.region == region && at >= piece.offset && at + 4 <= piece.offset + piece.bytes) {
        float number;
        std::memcpy(&number, weights_.data() + piece.at + (at - piece.offset), 4);
        return number;
      }
    return 0;
  }

 private:
  void read(const std::string& line) {
    std::istringstream words(line);
    std::string kind, region;
    words >> kind;
    if (kind == "weight" || kind == "input") {
      Piece piece{};
      words >> region >> piece.offset >> piece.bytes;
      piece.region = region_of(region);
      if (kind == "weight") words >> piece.at;
      (kind == "weight" ? pieces_ : inputs_).push_back(piece);
      if (kind == "input") batch_bytes_ += piece.bytes;
    } else if (kind == "expect") {
      Expected tensor;
      std::string what, layout, shape, tolerance, floor;
      words >> what >> tensor.batch >> tensor.step >> region >> tensor.offset >> layout >> shape >> tensor.every >> tensor.count >>
          tensor.at >> tolerance >> floor >> tensor.name;
      tensor.is_change = what == "change";
      tensor.channels_last = layout == "last";
      tensor.region = region_of(region);
      tensor.tolerance = std::strtod(tolerance.c_str(), nullptr);
      tensor.floor = std::strtod(floor.c_str(), nullptr);
      std::replace(shape.begin(), shape.end(), 'x', ' ');
      std::istringstream sizes(shape);
      for (int64_t size; sizes >> size;) tensor.shape.push_back(size);
      expected_.push_back(tensor);
    } else if (!kind.empty() && kind[0] != '#') {
      throw std::runtime_error("data/index.txt has an unknown line: " + line.substr(0, 80));
    }
    if (words.fail()) throw std::runtime_error("data/index.txt has an incomplete line: " + line.substr(0, 80));
  }

  static std::vector<char> whole(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void copy(const std::vector<char>& from, const char* file, int64_t at, const Piece& piece) const {
    if (at + piece.bytes > static_cast<int64_t>(from.size())) throw std::runtime_error(folder_ + "/" + file + " is too short");
    if (piece.offset + piece.bytes > regions[piece.region].bytes) throw std::runtime_error("data/index.txt does not fit buffers.hpp");
    std::memcpy(memory[piece.region] + piece.offset, from.data() + at, piece.bytes);
  }

  std::string folder_;
  std::vector<Piece> pieces_, inputs_;
  std::vector<Expected> expected_;
  int64_t batch_bytes_ = 0;
  std::vector<char> weights_, batches_, reference_;
};

void allocate() {
  for (int i = 0; i < region_count; ++i) {
    int64_t bytes = (std::max<int64_t>(regions[i].bytes, 256) + 255) / 256 * 256;
    memory[i] = static_cast<char*>(std::aligned_alloc(256, bytes));
    if (!memory[i]) throw std::bad_alloc();
    std::memset(memory[i], 0, bytes);
  }
}

// Initial weights, and an optimizer that has not run yet.
void restore(const Data& data) {
  for (int i = 0; i < region_count; ++i)
    if (!std::strcmp(regions[i].name, "momentum") || !std::strcmp(regions[i].name, "zeros")) std::memset(memory[i], 0, regions[i].bytes);
  data.load_weights();
}

// The offset in memory of an element that is number `i` in the order of the shape.
int64_t place(const Expected& tensor, int64_t i) {
  if (!tensor.channels_last) return i;
  int64_t c = tensor.shape[1], h = tensor.shape[2], w = tensor.shape[3];
  int64_t column = i % w, row = i / w % h, channel = i / (w * h) % c, image = i / (w * h * c);
  return ((image * h + row) * w + column) * c + channel;
}

// How far a tensor is from the reference: the norm of the difference, for that of the reference.
double error(const Data& data, const Expected& tensor) {
  const char* from = memory[tensor.region] + tensor.offset;
  double apart = 0, size = 0;
  for (int64_t i = 0; i < tensor.count; ++i) {
    int64_t at = place(tensor, i * tensor.every) * 4;
    float got;
    std::memcpy(&got, from + at, 4);
    if (tensor.is_change) got -= data.initial(tensor.region, tensor.offset + at);
    double wanted = data.reference(tensor, i);
    if (std::isfinite(wanted)) {
      apart += (got - wanted) * (got - wanted);
      size += wanted * wanted;
    } else if (!(got == wanted || (std::isnan(got) && std::isnan(wanted)))) {
      return INFINITY;
    }
  }
  double norm = std::max(std::sqrt(size), tensor.floor);
  if (!std::isfinite(apart)) return INFINITY;
  return norm > 0 ? std::sqrt(apart) / norm : apart > 0 ? INFINITY : 0.0;
}

// Whether a step computes what the reference has: from the initial weights on each batch, and on the first one some more.
bool check(const Data& data) {
  int64_t last_step = 1, differing = 0, compared = 0, undecided = 0;
  for (const Expected& tensor : data.expected()) last_step = std::max(last_step, tensor.step);
  const Expected* worst = nullptr;
  double worst_error = 0;
  for (int64_t batch = data.batches(); batch-- > 0;) {
    data.load_batch(batch);
    restore(data);
    // NaN: a call that reads memory which no call of its step has written shows in the result.
    std::memset(memory[static_cast<int>(Region::arena)], 0xff, regions[static_cast<int>(Region::arena)].bytes);
    for (int64_t done = 1; done <= (batch ? 1 : last_step); ++done) {
      step();
      for (const Expected& tensor : data.expected()) {
        if (tensor.batch != batch || tensor.step != done) continue;
        // What eager itself leaves open decides nothing.
        if (std::isinf(tensor.tolerance)) {
          ++undecided;
          continue;
        }
        ++compared;
        double off = error(data, tensor);
        if (!worst || off / tensor.tolerance > worst_error / worst->tolerance) worst = &tensor, worst_error = off;
        if (off <= tensor.tolerance) continue;
        ++differing;
        std::printf("%s differs: off by %.3g, allowed %.3g\n", tensor.name.c_str(), off, tensor.tolerance);
      }
    }
  }
  if (compared + undecided != static_cast<int64_t>(data.expected().size()))
    throw std::runtime_error("data/index.txt expects a tensor after a step that is not run");
  if (!worst) throw std::runtime_error("the reference decides nothing: every tensor of it is rounding noise");
  auto count = static_cast<long long>(compared);
  if (differing) std::printf("check: FAILED, %lld of %lld tensors differ from the reference\n", static_cast<long long>(differing), count);
  else
    std::printf("check: %lld tensors are the same as the reference; the nearest to its limit is %s: off by %.2g, allowed %.2g\n", count,
                worst->name.c_str(), worst_error, worst->tolerance);
  return !differing;
}

double seconds_of(int64_t steps) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void time_steps(const Data& data, const Options& options) {
  // As many steps as training on random numbers takes without diverging; then the weights are restored, which is not timed.
  constexpr int64_t most_steps = 64;
  constexpr double warm_up_s = 0.5, shortest_block_s = 1e-3;
  int64_t since_restored = 0, block = 1, turn = 0;
  auto timed = [&](int64_t steps) {
    data.load_batch(turn++ % data.batches());
    if ((since_restored += steps) > most_steps) restore(data), since_restored = steps;
    return seconds_of(steps) / static_cast<double>(steps);
  };
  restore(data);
  double spent = 0, last = 0;
  for (int i = 0; i < 3 || spent < warm_up_s; ++i) spent += last = timed(1);
  block = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(shortest_block_s / last)), 1, most_steps);
  std::vector<double> samples;
  for (int64_t i = 0; i < options.steps; ++i) samples.push_back(timed(block));
  std::sort(samples.begin(), samples.end());
  auto quantile = [&](double q) { return samples[static_cast<size_t>(std::lround(q * static_cast<double>(samples.size() - 1)))] * 1e3; };
  std::printf("step: median %.4g ms, p5 %.4g ms, p95 %.4g ms (%lld blocks of %lld, %d threads)\n", quantile(0.5), quantile(0.05),
              quantile(0.95), static_cast<long long>(options.steps), static_cast<long long>(block), options.threads);
}

int usage(const std::string& fault) {
  if (!fault.empty()) std::fprintf(stderr, "step: %s\n", fault.c_str());
  std::fprintf(fault.empty() ? stdout : stderr,
               "usage: step [--check] [--steps N] [--threads N] [--data FOLDER]\n"
               "  --check    only compare with the reference: exit code 1 where a tensor differs\n"
               "  --steps    how many blocks are timed (50)\n"
               "  --threads  of BLAS and of the generated kernels (default: OMP_NUM_THREADS, or one for each core)\n"
               "  --data     the folder data/ of this project\n");
  return fault.empty() ? 0 : 2;
}

int64_t count_of(const std::string& option, const char* text) {
  char* end = nullptr;
  long long number = text ? std::strtoll(text, &end, 10) : 0;
  if (number < 1 || number > 1000000 || *end) throw std::invalid_argument(option + " takes a positive whole number, not '" + (text ? text : "") + "'");
  return number;
}

// data/ beside the program or above it, as in a build folder, or in the current folder.
std::string data_folder(const char* program) {
  auto folder = std::filesystem::weakly_canonical(program).parent_path();
  for (int level = 0; level < 4 && !folder.empty(); ++level, folder = folder.parent_path())
    if (std::filesystem::exists(folder / "data" / "index.txt")) return (folder / "data").string();
  return "data";
}

}  // namespace

int main(int count, char** words) {
  try {
    Options options;
    const char* given = std::getenv("OMP_NUM_THREADS");
    int usual = given && std::atoi(given) > 0 ? std::atoi(given) : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (!options.threads) options.threads = usual;
    for (int i = 1; i < count; ++i) {
      std::string word = words[i];
      const char* next = i + 1 < count ? words[i + 1] : nullptr;
      if (word == "--help" || word == "-h") return usage("");
      if (word == "--check") options.check_only = true;
      else if (word == "--steps") options.steps = count_of(word, next), ++i;
      else if (word == "--threads") options.threads = static_cast<int>(count_of(word, next)), ++i;
      else if (word == "--data" && next) options.data = next, ++i;
      else return usage("unknown option '" + word + "'");
    }
    Data data(options.data.empty() ? data_folder(words[0]) : options.data);
    allocate();
    start(options.threads);
    if (!check(data)) return 1;
    if (!options.check_only) time_steps(data, options);
    return 0;
  } catch (const std::invalid_argument& fault) {
    return usage(fault.what());
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "step: %s\n", fault.what());
    return 1;
  }
}
