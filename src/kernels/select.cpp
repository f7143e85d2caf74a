#include <array>
#include <cstdlib>
#include <iterator>
#include <string>

#include "base/error.h"
#include "kernels/isa/isa.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

using cpu::Features;

struct Row {
  std::string_view name;
  bool (*supported)(const Features&) noexcept;
  const KernelTable& base;
  const Overlay* overlay = nullptr;
  const Overlay* of_read_rows = nullptr;                  // null: as rows that are written
  bool (*preferred)(const Features&) noexcept = nullptr;  // null: wherever it is supported
  bool is_for_encoders = false;
};

// Every processor with tiles also rounds to BF16.
bool has_tiles(const Features& f) noexcept {
  return f.avx512_vnni && f.avx512_bf16 && f.amx_int8 && f.amx_bf16;
}
bool has_vnni(const Features& f) noexcept { return f.avx512_vnni; }
bool has_halves(const Features& f) noexcept { return f.avx512_fp16; }
bool has_bf16(const Features& f) noexcept { return f.avx512_bf16; }
bool has_fast_bf16(const Features& f) noexcept { return f.avx512_bf16 && !f.intel; }
bool has_avx_vnni(const Features& f) noexcept { return f.avx_vnni; }
bool has_avx2(const Features& f) noexcept { return f.avx2; }
bool always(const Features&) noexcept { return true; }

// Best first.
const Row kRows[] = {
    {.name = "amx_bf16",
     .supported = has_tiles,
     .base = kAvx512,
     .overlay = &kAmxBf16,
     .is_for_encoders = true},
    {.name = "amx_prompts",
     .supported = has_tiles,
     .base = kAvx512,
     .overlay = &kAmx,
     .of_read_rows = &kAmxBf16},
    {.name = "amx", .supported = has_tiles, .base = kAvx512, .overlay = &kAmx},
    {.name = "avx512_fp16", .supported = has_halves, .base = kAvx512, .overlay = &kAvx512Fp16},
    {.name = "avx512_bf16",
     .supported = has_bf16,
     .base = kAvx512,
     .overlay = &kAvx512Bf16,
     .preferred = has_fast_bf16},
    {.name = "avx512", .supported = has_vnni, .base = kAvx512},
    {.name = "avx_vnni", .supported = has_avx_vnni, .base = kAvx2, .overlay = &kAvxVnni},
    {.name = "avx2", .supported = has_avx2, .base = kAvx2},
    {.name = "scalar", .supported = always, .base = kScalar},
};

class Tables {
 public:
  Tables() noexcept {
    for (size_t i = 0; i < tables_.size(); ++i) {
      const Row& row = kRows[i];
      tables_[i] = row.overlay == nullptr ? row.base : overlaid(row.base, *row.overlay);
      if (row.of_read_rows != nullptr)
        tables_[i] = with_read_kernels(tables_[i], *row.of_read_rows);
      tables_[i].name = row.name;
      tables_[i].supported = row.supported;
      tables_[i].preferred = row.preferred == nullptr ? row.supported : row.preferred;
      tables_[i].is_for_encoders = row.is_for_encoders;
      list_[i] = &tables_[i];
    }
  }
  std::span<const KernelTable* const> list() const noexcept { return list_; }

 private:
  std::array<KernelTable, std::size(kRows)> tables_{};
  std::array<const KernelTable*, std::size(kRows)> list_{};
};

}  // namespace

namespace {

void replace(TypeTable& types, const TypeTable& by) noexcept {
  for (size_t i = 0; i < types.size(); ++i) {
    if (by[i].input != nullptr) types[i].input = by[i].input;
    if (by[i].pack_strip != nullptr) types[i].pack_strip = by[i].pack_strip;
    if (by[i].gemm != nullptr) types[i].gemm = by[i].gemm;
  }
}

}  // namespace

KernelTable overlaid(const KernelTable& base, const Overlay& overlay) noexcept {
  KernelTable table = base;
  replace(table.types, overlay.types);
  replace(table.read_types, overlay.types);
  if (overlay.encoder_attention_bf16 != nullptr)
    table.encoder_attention_bf16 = overlay.encoder_attention_bf16;
  return table;
}

KernelTable with_read_kernels(const KernelTable& table, const Overlay& overlay) noexcept {
  KernelTable result = table;
  result.has_read_kernels = true;
  replace(result.read_types, overlay.types);
  if (overlay.read_attention != nullptr) result.read_attention = overlay.read_attention;
  return result;
}

std::span<const KernelTable* const> tables() noexcept {
  static const Tables all;
  return all.list();
}

const KernelTable& select_table(std::string_view forced, Work work) {
  std::string names;
  for (const KernelTable* table : tables()) {
    const bool suits = work == Work::kEncoder || !table->is_for_encoders;
    if (forced.empty() && suits && table->preferred(cpu::features())) return *table;
    if (forced == table->name && table->supported(cpu::features())) return *table;
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

const KernelTable& select_table(Work work) {
  const char* forced = std::getenv("BILLOW_ISA");
  return select_table(forced ? forced : "", work);
}

}  // namespace billow::kernels
