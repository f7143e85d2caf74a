#include <cstdlib>
#include <string>

#include "base/error.h"
#include "kernels/isa/isa.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

const KernelTable* const kTables[] = {&kAvx512, &kAvx2, &kScalar};

}  // namespace

std::span<const KernelTable* const> tables() noexcept { return kTables; }

const KernelTable& select_table(std::string_view forced) {
  std::string names;
  for (const KernelTable* table : kTables) {
    const bool supported = table->supported(cpu::features());
    if (forced.empty() && supported) return *table;
    if (forced == table->name && supported) return *table;
    if (forced == table->name) {
      throw Error(ErrorCode::kUnsupported,
                  "BILLOW_ISA=" + std::string(forced) +
                      " is not supported by this processor; unset it to let Billow choose");
    }
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  throw Error(ErrorCode::kInvalidInput,
              "BILLOW_ISA=" + std::string(forced) + " is unknown; it may be one of " + names);
}

const KernelTable& select_table() {
  const char* forced = std::getenv("BILLOW_ISA");
  return select_table(forced ? forced : "");
}

}  // namespace billow::kernels
