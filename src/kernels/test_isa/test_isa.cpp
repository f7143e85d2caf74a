#include "kernels/test_isa/test_isa.h"

#include <array>

namespace billow::kernels {
namespace {

KernelTable named(std::string_view name, bool (*supported)(const cpu::Features&) noexcept,
                  const KernelTable& base, const Overlay& overlay) {
  KernelTable table = overlaid(base, overlay);
  table.name = name;
  table.supported = table.preferred = supported;
  return table;
}

}  // namespace

std::span<const KernelTable* const> test_tables() {
  using cpu::Features;
  static const std::array<KernelTable, 1> kTables = {
      named(
          "avx_vnni_evex", [](const Features& f) noexcept { return f.avx512_vnni; }, kAvx2,
          kAvxVnniEvex),
  };
  static const std::array<const KernelTable*, 1> kList = {&kTables[0]};
  return kList;
}

}  // namespace billow::kernels
