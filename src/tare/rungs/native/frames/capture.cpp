// Takes, cuts, names and writes stacks. The worker marks the user's call with one of the two functions at the end; the
// report goes to the file named by TARE_FRAMES.
#include "capture.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../worker/json.hpp"
#include "elf.hpp"

namespace tare::frames {
namespace {

constexpr int DEEPEST = 512;
constexpr size_t MOST_HITS = 4096;

struct Hit {
  std::string entry;
  Kind kind;
  bool anchored;
  std::vector<uintptr_t> stack;
};

struct Place {
  std::string module, symbol;
};

std::mutex guard;
std::vector<Hit> hits;
std::map<std::string, std::string> unwatched;
std::atomic<bool> calling{false};
void (*on_hit)(long) = nullptr;
// State of the thread that makes the user's call.
thread_local bool anchored = false;
thread_local bool inside = false;

// The address range of this library. A stack is cut at its first frame in this range, which marked the user's call.
struct Range {
  uintptr_t from = 0, until = 0;
};

Range own_code() {
  Range range;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto here = reinterpret_cast<uintptr_t>(&own_code);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          uintptr_t from = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
          uintptr_t until = from + object->dlpi_phdr[i].p_memsz;
          if (object->dlpi_phdr[i].p_type == PT_LOAD && from <= here && here < until)
            *static_cast<Range*>(data) = {from, until};
        }
        return 0;
      },
      &range);
  return range;
}

Range ours;

const char* text_of(Kind kind) {
  switch (kind) {
    case Kind::convolution: return "convolution";
    case Kind::product: return "product";
    case Kind::recurrent: return "recurrent";
    case Kind::graph: return "graph";
    default: return "other";
  }
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

// A return address follows its call and may already be in the next function, so the byte before it is looked up.
std::map<uintptr_t, Place> places() {
  std::map<uintptr_t, Place> found;
  std::map<std::string, std::pair<uintptr_t, std::vector<uintptr_t>>> unnamed;
  for (const Hit& hit : hits)
    for (uintptr_t address : hit.stack) {
      if (found.count(address)) continue;
      Dl_info info{};
      link_map* map = nullptr;
      Place& place = found[address];
      auto* inside_the_call = reinterpret_cast<void*>(address - 1);
      if (!::dladdr1(inside_the_call, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !info.dli_fname) continue;
      place.module = info.dli_fname;
      if (info.dli_sname) place.symbol = readable(info.dli_sname);
      else {
        auto& library = unnamed[place.module];
        library.first = map ? map->l_addr : 0;
        library.second.push_back(address);
      }
    }
  for (auto& [path, library] : unnamed) {
    auto& [base, addresses] = library;
    std::sort(addresses.begin(), addresses.end());
    SymbolTable table(path.find('/') == std::string::npos ? "/proc/self/exe" : path);
    table.functions([&, base = base](const char* name, uintptr_t start, size_t size) {
      uintptr_t from = base + start;
      for (auto at = std::upper_bound(addresses.begin(), addresses.end(), from);
           at != addresses.end() && *at <= from + size; ++at)
        if (found[*at].symbol.empty()) found[*at].symbol = readable(name);
    });
  }
  return found;
}

void report() {
  const char* path = std::getenv("TARE_FRAMES");
  if (!path) return;
  auto named = places();
  std::map<uintptr_t, int64_t> numbers;
  char program[4096] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) program[0] = '\0';
  std::string text = "{\"program\":" + json_text(program) + ",\"places\":[";
  for (const auto& [address, place] : named) {
    text += std::string(numbers.empty() ? "" : ",") + "{\"module\":" + json_text(place.module) +
            ",\"symbol\":" + json_text(place.symbol) + "}";
    numbers[address] = static_cast<int64_t>(numbers.size());
  }
  text += "],\"hits\":[";
  for (size_t i = 0; i < hits.size(); ++i) {
    std::vector<int64_t> stack;
    for (uintptr_t address : hits[i].stack) stack.push_back(numbers[address]);
    text += std::string(i ? "," : "") + "{\"entry\":" + json_text(readable(hits[i].entry.c_str())) + ",\"kind\":\"" +
            text_of(hits[i].kind) + "\",\"anchored\":" + (hits[i].anchored ? "true" : "false") +
            ",\"stack\":" + json_list(stack) + "}";
  }
  text += "],\"unwatched\":{";
  bool first = true;
  for (const auto& [entry, why] : unwatched) {
    text += std::string(first ? "" : ",") + json_text(entry) + ":" + json_text(why);
    first = false;
  }
  std::string temporary = std::string(path) + ".part";
  std::ofstream(temporary) << text + "}}";
  ::rename(temporary.c_str(), path);
}

// Child processes of the worker, such as a compiler, need no counter.
__attribute__((constructor)) void leave_the_children_alone() { ::unsetenv("LD_PRELOAD"); }

class Call {
 public:
  Call() {
    // The first call of backtrace loads the unwinder, which must not happen inside a signal handler.
    void* none[1];
    ::backtrace(none, 1);
    ours = own_code();
    plant_traps();
    anchored = true;
    calling = true;
  }
  ~Call() {
    calling = false;
    anchored = false;
    report();
  }
};

}  // namespace

bool wanted() { return calling && !inside; }

void report_unwatched(const char* entry, const char* why) { unwatched[entry] = why; }

void take(const char* entry, Kind kind, uintptr_t pc, bool is_caller) {
  // The functions called below must not be counted.
  inside = true;
  void* raw[DEEPEST];
  int depth = ::backtrace(raw, DEEPEST);
  auto* begin = reinterpret_cast<uintptr_t*>(raw);
  auto* end = begin + depth;
  auto* from = std::find(begin, end, pc);
  if (from == end) report_unwatched(entry, "the unwinder does not get from the hook to its caller");
  else if (!is_caller) ++from;
  auto* until = std::find_if(from, end, [](uintptr_t address) { return ours.from <= address && address < ours.until; });
  long index = -1;
  {
    std::lock_guard<std::mutex> lock(guard);
    if (hits.size() < MOST_HITS) {
      index = static_cast<long>(hits.size());
      hits.push_back({entry, kind, anchored && until != end, {from, until}});
    }
  }
  if (index >= 0 && anchored && on_hit) on_hit(index);
  inside = false;
}

}  // namespace tare::frames

extern "C" {

// The user's call from a program in any compiled language.
__attribute__((visibility("default"), noinline)) void tare_frames_call(void (*step)(void*), void* state) {
  tare::frames::Call call;
  step(state);
}

// The user's call in Python: `callable()`. The caller holds the GIL.
__attribute__((visibility("default"), noinline)) void* tare_frames_call_python(void* callable) {
  using CallNoArgs = void* (*)(void*);
  auto call_no_args = reinterpret_cast<CallNoArgs>(::dlsym(RTLD_DEFAULT, "PyObject_CallNoArgs"));
  if (!call_no_args) return nullptr;
  tare::frames::Call call;
  return call_no_args(callable);
}

// Called for every stack taken on the calling thread, with its index, so that Python can record its own frames.
__attribute__((visibility("default"))) void tare_frames_on_hit(void (*callback)(long)) {
  tare::frames::on_hit = callback;
}
}
