// The entry of oneDNN inside libtorch_cpu, which is not exported: its address comes from the file's .symtab, and a
// breakpoint is set there, as a debugger would. The displaced instruction runs from a page of our own, so the breakpoint
// stays in place and every call is seen, on any thread.
#include <csignal>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "capture.hpp"
#include "elf.hpp"

namespace tare::frames {
namespace {

const char* const ENTRY = "dnnl_primitive_execute";

// From oneDNN 3, oneapi/dnnl/dnnl_types.h: the query of a primitive's kind, and the kinds.
constexpr int QUERY_PRIMITIVE_KIND = 2;
constexpr int CONVOLUTION = 5, DECONVOLUTION = 6, INNER_PRODUCT = 10, RNN = 11, GEMM = 12, MATMUL = 14;

using GetDescriptor = int (*)(const void* primitive, const void** descriptor);
using Query = int (*)(const void* descriptor, int what, int index, void* result);

struct Trap {
  uintptr_t entry = 0;
  void* detour = nullptr;
  GetDescriptor descriptor = nullptr;
  Query query = nullptr;
};

std::vector<Trap> traps;
struct sigaction before {};

Kind kind_of(const Trap& trap, const void* primitive) {
  const void* about = nullptr;
  int kind = 0;
  if (!trap.descriptor || !trap.query || trap.descriptor(primitive, &about) != 0) return Kind::other;
  if (trap.query(about, QUERY_PRIMITIVE_KIND, 0, &kind) != 0) return Kind::other;
  if (kind == CONVOLUTION || kind == DECONVOLUTION) return Kind::convolution;
  if (kind == RNN) return Kind::recurrent;
  return kind == INNER_PRODUCT || kind == GEMM || kind == MATMUL ? Kind::product : Kind::other;
}

#if defined(__x86_64__)
constexpr unsigned char BREAKPOINT[] = {0xcc};
uintptr_t stopped_at(const ucontext_t* context) { return context->uc_mcontext.gregs[REG_RIP]; }
// The processor stops after the breakpoint instruction.
uintptr_t trapped_at(const ucontext_t* context) { return stopped_at(context) - 1; }
void go_on_at(ucontext_t* context, void* where) { context->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(where); }
const void* first_argument(const ucontext_t* context) { return reinterpret_cast<void*>(context->uc_mcontext.gregs[REG_RDI]); }

// The length of the instruction at the start of a function; 0 if it is not known to run at another address.
size_t movable(const unsigned char* code) {
  if (std::memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) return 4;                   // endbr64
  if (code[0] >= 0x50 && code[0] <= 0x57) return 1;                             // push
  if (code[0] == 0x41 && code[1] >= 0x50 && code[1] <= 0x57) return 2;          // push r8-r15
  if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xec) return 4;          // sub rsp, imm8
  if (code[0] == 0x48 && code[1] == 0x81 && code[2] == 0xec) return 7;          // sub rsp, imm32
  return 0;
}

void write_jump(unsigned char* at, uintptr_t target) {
  std::memcpy(at, "\xff\x25\x00\x00\x00\x00", 6);  // jmp *0(%rip)
  std::memcpy(at + 6, &target, sizeof target);
}
#else
constexpr unsigned char BREAKPOINT[] = {0x00, 0x00, 0x20, 0xd4};  // brk #0
uintptr_t stopped_at(const ucontext_t* context) { return context->uc_mcontext.pc; }
uintptr_t trapped_at(const ucontext_t* context) { return stopped_at(context); }
void go_on_at(ucontext_t* context, void* where) { context->uc_mcontext.pc = reinterpret_cast<uintptr_t>(where); }
const void* first_argument(const ucontext_t* context) { return reinterpret_cast<void*>(context->uc_mcontext.regs[0]); }

size_t movable(const unsigned char* code) {
  uint32_t word = 0;
  std::memcpy(&word, code, sizeof word);
  bool stack_down = (word & 0xff8003ff) == 0xd10003ff;                // sub sp, sp, #n
  bool save_pair = (word & 0xffc003e0) == 0xa98003e0;                 // stp a, b, [sp, #-n]!
  bool hint = (word & 0xfffff01f) == 0xd503201f;                      // nop, bti, paciasp
  return stack_down || save_pair || hint ? 4 : 0;
}

void write_jump(unsigned char* at, uintptr_t target) {
  std::memcpy(at, "\x50\x00\x00\x58\x00\x02\x1f\xd6", 8);  // ldr x16, #8; br x16
  std::memcpy(at + 8, &target, sizeof target);
}
#endif

void on_trap(int signal, siginfo_t* info, void* raw) {
  auto* context = static_cast<ucontext_t*>(raw);
  uintptr_t at = trapped_at(context);
  for (const Trap& trap : traps) {
    if (trap.entry != at) continue;
    if (wanted()) take(ENTRY, kind_of(trap, first_argument(context)), stopped_at(context), false);
    go_on_at(context, trap.detour);
    return;
  }
  // Not our breakpoint: restore the default behaviour.
  ::sigaction(SIGTRAP, &before, nullptr);
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, raw);
}

const char* plant(uintptr_t entry, Trap& trap) {
  auto* code = reinterpret_cast<unsigned char*>(entry);
  size_t length = movable(code);
  if (!length) return "its first instruction is not one that can be moved";
  size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "no memory for a detour";
  auto* detour = static_cast<unsigned char*>(memory);
  std::memcpy(detour, code, length);
  write_jump(detour + length, entry + length);
  if (::mprotect(memory, page, PROT_READ | PROT_EXEC) != 0) return "the system forbids new code";
  __builtin___clear_cache(static_cast<char*>(memory), static_cast<char*>(memory) + page);
  trap.entry = entry;
  trap.detour = memory;
  uintptr_t start = entry & ~(page - 1);
  size_t span = (entry + sizeof BREAKPOINT > start + page ? 2 : 1) * page;
  if (::mprotect(reinterpret_cast<void*>(start), span, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return "the system forbids changing code";
  traps.push_back(trap);
  std::memcpy(code, BREAKPOINT, sizeof BREAKPOINT);
  ::mprotect(reinterpret_cast<void*>(start), span, PROT_READ | PROT_EXEC);
  __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + sizeof BREAKPOINT);
  return nullptr;
}

void plant_in(const char* path, uintptr_t base) {
  SymbolTable table(path);
  uintptr_t entry = 0, descriptor = 0, query = 0;
  table.functions([&](const char* name, uintptr_t start, size_t) {
    if (std::strcmp(name, ENTRY) == 0) entry = start;
    if (std::strcmp(name, "dnnl_primitive_get_primitive_desc") == 0) descriptor = start;
    if (std::strcmp(name, "dnnl_primitive_desc_query") == 0) query = start;
  });
  if (!entry) return report_unwatched(ENTRY, "it is not in the symbols of the library (stripped, or built without oneDNN)");
  for (const Trap& known : traps)
    if (known.entry == base + entry) return;
  Trap trap;
  if (descriptor) trap.descriptor = reinterpret_cast<GetDescriptor>(base + descriptor);
  if (query) trap.query = reinterpret_cast<Query>(base + query);
  if (const char* why = plant(base + entry, trap)) report_unwatched(ENTRY, why);
}

}  // namespace

void plant_traps() {
  struct Library {
    std::string path;
    uintptr_t base;
  };
  std::vector<Library> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        const char* path = object->dlpi_name ? object->dlpi_name : "";
        if (std::strstr(path, "libtorch_cpu.so") || std::strstr(path, "libdnnl.so"))
          static_cast<std::vector<Library>*>(data)->push_back({path, object->dlpi_addr});
        return 0;
      },
      &found);
  if (found.empty()) return;
  if (traps.empty()) {
    // Reserved, because a reallocation would invalidate the list while a handler reads it.
    traps.reserve(8);
    struct sigaction ours {};
    ours.sa_sigaction = on_trap;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    ::sigaction(SIGTRAP, &ours, &before);
  }
  for (const Library& library : found) plant_in(library.path.c_str(), library.base);
}

}  // namespace tare::frames
