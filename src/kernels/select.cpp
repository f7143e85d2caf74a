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
  bool (*preferred)(const Features&) noexcept = nullptr;  // null: wherever it is supported
  bool is_for_encoders = false;
};

// Every processor with tiles also rounds to BF16.
bool has_tiles(const Features& f) noexcept {
  return f.avx512_vnni && f.avx512_bf16 && f.amx_int8 && f.amx_bf16;
}

// Best first.
const Row kRows[] = {
    {"amx_bf16", has_tiles, kAvx512, &kAmxBf16, nullptr, true},
    {"amx", has_tiles, kAvx512, &kAmx},
    {"avx512_fp16", [](const Features& f) noexcept { return f.avx512_fp16; }, kAvx512,
     &kAvx512Fp16},
    {"avx512_bf16", [](const Features& f) noexcept { return f.avx512_bf16; }, kAvx512, &kAvx512Bf16,
     [](const Features& f) noexcept { return f.avx512_bf16 && !f.intel; }},
    {"avx512", [](const Features& f) noexcept { return f.avx512_vnni; }, kAvx512},
    {"avx_vnni", [](const Features& f) noexcept { return f.avx_vnni; }, kAvx2, &kAvxVnni},
    {"avx2", [](const Features& f) noexcept { return f.avx2; }, kAvx2},
    {"scalar", [](const Features&) noexcept { return true; }, kScalar},
};

class Tables {
 public:
  Tables() noexcept {
    for (size_t i = 0; i < tables_.size(); ++i) {
      const Row& row = kRows[i];
      tables_[i] = row.overlay == nullptr ? row.base : overlaid(row.base, *row.overlay);
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

KernelTable overlaid(const KernelTable& base, const Overlay& overlay) noexcept {
  KernelTable table = base;
  for (size_t i = 0; i < table.types.size(); ++i) {
    const TypeKernels& from = overlay.types[i];
    TypeKernels& to = table.types[i];
    if (from.input != nullptr) to.input = from.input;
    if (from.pack_strip != nullptr) to.pack_strip = from.pack_strip;
    if (from.gemm != nullptr) to.gemm = from.gemm;
  }
  if (overlay.encoder_attention_bf16 != nullptr)
    table.encoder_attention_bf16 = overlay.encoder_attention_bf16;
  return table;
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
