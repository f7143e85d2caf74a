#include "kernels/test_isa/test_isa.h"

#include <vector>

namespace billow::kernels {
namespace {

using cpu::Features;

KernelTable named(std::string_view name, bool (*supported)(const Features&) noexcept,
                  const KernelTable& base, const Overlay& overlay,
                  const Overlay* of_read_rows = nullptr) {
  KernelTable table = overlaid(base, overlay);
  if (of_read_rows != nullptr) table = with_read_kernels(table, *of_read_rows);
  table.name = name;
  table.supported = table.preferred = supported;
  return table;
}

bool always(const Features&) noexcept { return true; }
bool with_avx512_vnni(const Features& features) noexcept { return features.avx512_vnni; }

const std::vector<KernelTable>& all() {
  static const std::vector<KernelTable> made = {
      named("amx_emulated", always, kScalar, kAmxEmulated),
      named("amx_bf16_emulated", always, kScalar, kAmxBf16Emulated),
      named("amx_prompts_emulated", always, kScalar, kAmxEmulated, &kAmxBf16Emulated),
      named("avx512_fp16_emulated", always, kScalar, kAvx512Fp16Emulated),
      named("avx_vnni_evex", with_avx512_vnni, kAvx2, kAvxVnniEvex),
  };
  return made;
}

}  // namespace

std::span<const KernelTable* const> test_tables() {
  static const std::vector<const KernelTable*> list = [] {
    std::vector<const KernelTable*> pointers;
    for (const KernelTable& table : all()) pointers.push_back(&table);
    return pointers;
  }();
  return list;
}

}  // namespace billow::kernels
