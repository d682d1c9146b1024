// The interposed entries. Each is a stub that takes the stack and jumps to the real function with all arguments unchanged,
// so it needs no signature, no vendor header, and adds no frame.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "capture.hpp"

namespace {

using tare::frames::Kind;

struct Hook {
  const char* name;
  Kind kind;
  void* real;
};

// On aarch64, oneDNN calls the run() methods of Arm Compute Library's operators; cudaGraphLaunch stands for a whole
// captured step; the last entry is what the vendor rung calls on a CPU.
#define TARE_HOOKS(HOOK)                                      \
  HOOK(0, cudnnConvolutionForward, convolution)               \
  HOOK(1, cudnnConvolutionBiasActivationForward, convolution) \
  HOOK(2, cudnnConvolutionBackwardData, convolution)          \
  HOOK(3, cudnnConvolutionBackwardFilter, convolution)        \
  HOOK(4, cudnnBackendExecute, convolution)                   \
  HOOK(5, cudnnRNNForward, recurrent)                         \
  HOOK(6, cublasSgemm_v2, product)                            \
  HOOK(7, cublasDgemm_v2, product)                            \
  HOOK(8, cublasHgemm, product)                               \
  HOOK(9, cublasSgemmEx, product)                             \
  HOOK(10, cublasGemmEx, product)                             \
  HOOK(11, cublasSgemmStridedBatched, product)                \
  HOOK(12, cublasGemmStridedBatchedEx, product)               \
  HOOK(13, cublasGemmBatchedEx, product)                      \
  HOOK(14, cublasLtMatmul, product)                           \
  HOOK(15, sgemm_, product)                                   \
  HOOK(16, dgemm_, product)                                   \
  HOOK(17, sbgemm_, product)                                  \
  HOOK(18, cblas_sgemm, product)                              \
  HOOK(19, cblas_dgemm, product)                              \
  HOOK(20, _ZN11arm_compute12experimental2op13CpuGemmConv2d3runERNS_11ITensorPackE, convolution)           \
  HOOK(21, _ZN11arm_compute12experimental2op19CpuGemmDirectConv2d3runERNS_11ITensorPackE, convolution)     \
  HOOK(22, _ZN11arm_compute12experimental2op18CpuDepthwiseConv2d3runERNS_11ITensorPackE, convolution)      \
  HOOK(23, _ZN11arm_compute26NEWinogradConvolutionLayer3runEv, convolution)                                \
  HOOK(24, _ZN11arm_compute12experimental2op2ll23CpuGemmAssemblyDispatch3runERNS_11ITensorPackE, product)  \
  HOOK(25, cudaGraphLaunch, graph)                            \
  HOOK(26, scipy_cblas_sgemm, product)

#define TARE_ROW(index, name, kind) {#name, Kind::kind, nullptr},
Hook hooks[] = {TARE_HOOKS(TARE_ROW)};

bool is_ours(void* address) {
  static Dl_info own{};
  if (!own.dli_fbase) ::dladdr(reinterpret_cast<void*>(&hooks), &own);
  Dl_info info{};
  return ::dladdr(address, &info) && info.dli_fbase == own.dli_fbase;
}

void* in_library(const char* path, const char* name) {
  void* library = ::dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return nullptr;
  void* found = ::dlsym(library, name);
  return found && !is_ours(found) ? found : nullptr;
}

// torch's libraries are not in the global scope, so RTLD_NEXT does not find them. The definition in the caller's own
// library or its dependencies is the one that the caller would have reached without the hook.
void* resolve(const char* name, void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) && info.dli_fname)
    if (void* found = in_library(info.dli_fname, name)) return found;
  struct Search {
    const char* name;
    void* found;
  } search{name, nullptr};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        if (object->dlpi_name && *object->dlpi_name) wanted->found = in_library(object->dlpi_name, wanted->name);
        return wanted->found ? 1 : 0;
      },
      &search);
  return search.found;
}

}  // namespace

// Called by the stubs: takes the stack if it is wanted, and returns the address of the real function.
extern "C" __attribute__((visibility("hidden"))) void* tare_frames_enter(long index, void* caller) {
  Hook& hook = hooks[index];
  if (!hook.real) hook.real = resolve(hook.name, caller);
  if (!hook.real) {
    std::fprintf(stderr, "tare: the preloaded counter of frames finds no real %s\n", hook.name);
    std::abort();
  }
  if (tare::frames::wanted()) tare::frames::take(hook.name, hook.kind, reinterpret_cast<uintptr_t>(caller), true);
  return hook.real;
}

// The stubs save all registers that can carry an argument, and describe the caller in CFI, so that the unwinder passes
// through them.
#if defined(__x86_64__)
#define TARE_STUB(index, name, kind)                          \
  asm(".text\n.globl " #name "\n.type " #name ",@function\n"  \
      #name ":\n.cfi_startproc\n"                             \
      "endbr64\n"                                             \
      "pushq %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\n" \
      "movq %rsp,%rbp\n.cfi_def_cfa_register %rbp\n"          \
      "movl $" #index ",%r11d\n"                              \
      "call tare_frames_stub\n"                               \
      "popq %rbp\n.cfi_def_cfa %rsp,8\n"                      \
      "jmp *%r11\n.cfi_endproc\n.size " #name ",.-" #name "\n");
asm(R"(.text
.type tare_frames_stub,@function
tare_frames_stub:
.cfi_startproc
pushq %rbp
.cfi_def_cfa_offset 16
.cfi_offset %rbp,-16
movq %rsp,%rbp
.cfi_def_cfa_register %rbp
andq $-16,%rsp
subq $192,%rsp
movq %rdi,0(%rsp)
movq %rsi,8(%rsp)
movq %rdx,16(%rsp)
movq %rcx,24(%rsp)
movq %r8,32(%rsp)
movq %r9,40(%rsp)
movq %rax,48(%rsp)
movups %xmm0,64(%rsp)
movups %xmm1,80(%rsp)
movups %xmm2,96(%rsp)
movups %xmm3,112(%rsp)
movups %xmm4,128(%rsp)
movups %xmm5,144(%rsp)
movups %xmm6,160(%rsp)
movups %xmm7,176(%rsp)
movl %r11d,%edi
movq 24(%rbp),%rsi
call tare_frames_enter
movq %rax,%r11
movq 0(%rsp),%rdi
movq 8(%rsp),%rsi
movq 16(%rsp),%rdx
movq 24(%rsp),%rcx
movq 32(%rsp),%r8
movq 40(%rsp),%r9
movq 48(%rsp),%rax
movups 64(%rsp),%xmm0
movups 80(%rsp),%xmm1
movups 96(%rsp),%xmm2
movups 112(%rsp),%xmm3
movups 128(%rsp),%xmm4
movups 144(%rsp),%xmm5
movups 160(%rsp),%xmm6
movups 176(%rsp),%xmm7
movq %rbp,%rsp
popq %rbp
.cfi_def_cfa %rsp,8
ret
.cfi_endproc
.size tare_frames_stub,.-tare_frames_stub
)");
#elif defined(__aarch64__)
#define TARE_STUB(index, name, kind)                          \
  asm(".text\n.globl " #name "\n.type " #name ",%function\n"  \
      #name ":\n.cfi_startproc\n"                             \
      "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29,-16\n.cfi_offset x30,-8\n" \
      "mov x29,sp\n"                                          \
      "mov x16,#" #index "\n"                                 \
      "bl tare_frames_stub\n"                                 \
      "ldp x29,x30,[sp],#16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n" \
      "br x16\n.cfi_endproc\n.size " #name ",.-" #name "\n");
asm(R"(.text
.type tare_frames_stub,%function
tare_frames_stub:
.cfi_startproc
stp x29,x30,[sp,#-224]!
.cfi_def_cfa_offset 224
.cfi_offset x29,-224
.cfi_offset x30,-216
mov x29,sp
stp x0,x1,[sp,#16]
stp x2,x3,[sp,#32]
stp x4,x5,[sp,#48]
stp x6,x7,[sp,#64]
str x8,[sp,#80]
stp q0,q1,[sp,#96]
stp q2,q3,[sp,#128]
stp q4,q5,[sp,#160]
stp q6,q7,[sp,#192]
mov x0,x16
ldr x1,[sp,#232]
bl tare_frames_enter
mov x16,x0
ldp x0,x1,[sp,#16]
ldp x2,x3,[sp,#32]
ldp x4,x5,[sp,#48]
ldp x6,x7,[sp,#64]
ldr x8,[sp,#80]
ldp q0,q1,[sp,#96]
ldp q2,q3,[sp,#128]
ldp q4,q5,[sp,#160]
ldp q6,q7,[sp,#192]
ldp x29,x30,[sp],#224
.cfi_def_cfa_offset 0
.cfi_restore x29
.cfi_restore x30
ret
.cfi_endproc
.size tare_frames_stub,.-tare_frames_stub
)");
#else
#error "the counter of frames is written for x86-64 and aarch64"
#endif

TARE_HOOKS(TARE_STUB)
