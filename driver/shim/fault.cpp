// Stores into mapped register windows: the window is mapped read-only, the store faults, and the
// handler decodes it, sends it to the device and steps over it. 32-bit stores of general and vector
// registers, immediates and xchg (which compilers use for sequentially consistent atomic stores)
// are carried; anything else is left to the program's own handler, as the bus error of a register
// block that refuses an access would be.
#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

#include "driver/shim/client.h"
#include "driver/shim/real.h"
#include "driver/shim/windows.h"

namespace shim = driver::shim;
namespace wire = driver::wire;

namespace {

// The decoder is loaded with the first register window; most programs never map one.
using DecodeFull = decltype(&ZydisDecoderDecodeFull);
ZydisDecoder decoder;
DecodeFull decode_full = nullptr;

pthread_once_t install_once = PTHREAD_ONCE_INIT;
std::atomic<bool> handler_installed{false};
struct sigaction program_action;  // what the program wants for SIGSEGV

// mcontext index of the 32-bit registers in Zydis's order, EAX to R15D.
constexpr int kGeneralRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};

greg_t* general_register(ucontext_t* context, ZydisRegister name) {
  if (name < ZYDIS_REGISTER_EAX || name > ZYDIS_REGISTER_R15D) return nullptr;
  return &context->uc_mcontext.gregs[kGeneralRegisters[name - ZYDIS_REGISTER_EAX]];
}

struct Store {
  uint32_t value = 0;
  uint64_t length = 0;       // of the instruction
  greg_t* loaded = nullptr;  // xchg: receives the old value
};

bool operand_value(ucontext_t* context, const ZydisDecodedOperand& source, Store* store) {
  if (source.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    store->value = static_cast<uint32_t>(source.imm.value.u);
    return true;
  }
  if (source.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
  if (const greg_t* general = general_register(context, source.reg.value)) {
    store->value = static_cast<uint32_t>(*general);
    return true;
  }
  if (source.reg.value >= ZYDIS_REGISTER_XMM0 && source.reg.value <= ZYDIS_REGISTER_XMM15) {
    store->value =
        context->uc_mcontext.fpregs->_xmm[source.reg.value - ZYDIS_REGISTER_XMM0].element[0];
    return true;
  }
  return false;
}

bool decode_store(ucontext_t* context, Store* store) {
  if (decode_full == nullptr) return false;
  const auto pc = static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RIP]);
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  // Not past the page unless the instruction does: the next one may not be there.
  const uint64_t in_page = 4096 - (pc & 4095);
  const auto* code = reinterpret_cast<const void*>(pc);
  uint64_t length = in_page < ZYDIS_MAX_INSTRUCTION_LENGTH ? in_page : ZYDIS_MAX_INSTRUCTION_LENGTH;
  if (!ZYAN_SUCCESS(decode_full(&decoder, code, length, &instruction, operands)) &&
      !ZYAN_SUCCESS(
          decode_full(&decoder, code, ZYDIS_MAX_INSTRUCTION_LENGTH, &instruction, operands))) {
    return false;
  }
  const ZydisDecodedOperand& target = operands[0];
  if (instruction.operand_count_visible < 2 || target.type != ZYDIS_OPERAND_TYPE_MEMORY ||
      target.size != 32) {
    return false;
  }
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_XCHG:
      store->loaded = general_register(context, operands[1].reg.value);
      if (store->loaded == nullptr) return false;
      break;
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVNTI:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_VMOVD:
    case ZYDIS_MNEMONIC_VMOVSS:
      break;
    default:
      return false;
  }
  store->length = instruction.length;
  return operand_value(context, operands[1], store);
}

bool carry_store(uint64_t address, ucontext_t* context) {
  shim::Window window;
  Store store;
  if (!shim::find_mmio_window(address, &window) || address % sizeof(uint32_t) != 0 ||
      !decode_store(context, &store)) {
    return false;
  }
  if (store.loaded != nullptr) *store.loaded = *reinterpret_cast<const volatile uint32_t*>(address);
  const wire::MmioWriteBody body = {window.bar_offset + (address - window.start), store.value, 0};
  if (shim::call(wire::kMmioWrite, window.token, &body, sizeof body) < 0) return false;
  context->uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(store.length);
  return true;
}

// Does what the kernel would have done without us.
void chain(int signal, siginfo_t* info, void* context) {
  const struct sigaction action = program_action;
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  if (!with_info && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) {
    // A synchronous fault kills even when ignored: let it happen again without a handler.
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    SHIM_REAL(sigaction)(SIGSEGV, &plain, nullptr);
    return;
  }
  if ((action.sa_flags & SA_RESETHAND) != 0) program_action.sa_handler = SIG_DFL;
  sigset_t blocked = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, SIGSEGV);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if (with_info) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  const bool fault = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
  const bool carried = fault && carry_store(address, static_cast<ucontext_t*>(context));
  errno = saved;
  if (!carried) chain(signal, info, context);
}

constexpr const char* kDecoderLibrary = "libZydis.so.4.0";

// nullptr, or why there is no decoder.
const char* load_decoder() {
  void* library = dlopen(kDecoderLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const auto init =
      reinterpret_cast<decltype(&ZydisDecoderInit)>(dlsym(library, "ZydisDecoderInit"));
  const auto full = reinterpret_cast<DecodeFull>(dlsym(library, "ZydisDecoderDecodeFull"));
  if (init == nullptr || full == nullptr) return dlerror();
  if (!ZYAN_SUCCESS(init(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))) {
    return "its decoder does not start";
  }
  decode_full = full;
  return nullptr;
}

void install() {
  const int saved = errno;
  if (const char* missing = load_decoder()) {
    // The program gets an error number only; which library it is about is said here.
    dprintf(
        STDERR_FILENO,
        "soma: register windows cannot be mapped for writing: %s, which decodes the stores into "
        "them, cannot be used: %s\n",
        kDecoderLibrary, missing);
    errno = saved;
    return;
  }
  struct sigaction ours = {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  SHIM_REAL(sigaction)(SIGSEGV, &ours, &program_action);
  handler_installed.store(true, std::memory_order_release);
  errno = saved;
}

}  // namespace

namespace driver::shim {

// A thread that comes while another one installs waits for it: it stores as soon as this returns.
bool install_fault_handler() {
  pthread_once(&install_once, install);
  return handler_installed.load(std::memory_order_acquire);
}

}  // namespace driver::shim

// The program keeps thinking that SIGSEGV is its own.
SHIM_EXPORT int sigaction(int signal, const struct sigaction* action,
                          struct sigaction* old) noexcept {
  if (signal != SIGSEGV || !handler_installed.load(std::memory_order_acquire)) {
    return SHIM_REAL(sigaction)(signal, action, old);
  }
  const struct sigaction before = program_action;
  if (action != nullptr) program_action = *action;
  if (old != nullptr) *old = before;
  return 0;
}

SHIM_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  if (number != SIGSEGV || !handler_installed.load(std::memory_order_acquire)) {
    return SHIM_REAL(signal)(number, handler);
  }
  const sighandler_t before = program_action.sa_handler;
  program_action = {};
  program_action.sa_handler = handler;
  program_action.sa_flags = SA_RESTART;
  return before;
}
