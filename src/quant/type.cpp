#include "quant/type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "quant/type_list.h"

namespace billow::quant {
namespace {

template <class Format>
void decode_row(const std::byte* row, size_t n, float* out) noexcept {
  const auto* groups = reinterpret_cast<const typename Format::Group*>(row);
  for (size_t g = 0; g < n / Format::kGroupLen; ++g) {
    Format::decode(groups[g], out + g * Format::kGroupLen);
  }
}

template <class Format>
void encode_row(const float* in, size_t n, std::byte* row) noexcept {
  auto* groups = reinterpret_cast<typename Format::Group*>(row);
  for (size_t g = 0; g < n / Format::kGroupLen; ++g) {
    Format::encode(in + g * Format::kGroupLen, groups[g]);
  }
}

template <class Format>
constexpr TypeRow make_row() {
  static_assert(sizeof(typename Format::Group) == Format::kGroupBytes);
  static_assert(alignof(typename Format::Group) == 1, "a group may be at any address in a file");
  static_assert(!Format::kInteger || Format::kGroupLen % 32 == 0);
  static_assert(!Format::kPacking.has_heads() || Format::kGroupLen == kHeadLen);
  return {.type = Format::kType,
          .name = Format::kName,
          .group_len = Format::kGroupLen,
          .group_bytes = Format::kGroupBytes,
          .packing = Format::kPacking,
          .integer = Format::kInteger,
          .decode = decode_row<Format>,
          .encode = encode_row<Format>};
}

template <class... Format>
constexpr auto make_rows(TypeList<Format...>) {
  return std::array{make_row<Format>()...};
}

constexpr auto kRows = make_rows(Formats{});

constexpr bool ascending(std::span<const TypeRow> rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].type >= rows[i].type) return false;
  }
  return true;
}
static_assert(ascending(kRows), "type_list.h lists the formats in order of their numbers");

char upper(char c) noexcept {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
}

}  // namespace

std::span<const TypeRow> types() noexcept { return kRows; }

const TypeRow* find_type(uint32_t gguf_id) noexcept {
  for (const TypeRow& row : kRows) {
    if (static_cast<uint32_t>(row.type) == gguf_id) return &row;
  }
  return nullptr;
}

const TypeRow* find_type(std::string_view name) noexcept {
  for (const TypeRow& row : kRows) {
    if (std::ranges::equal(row.name, name, {}, upper, upper)) return &row;
  }
  return nullptr;
}

const TypeRow& row(Type type) noexcept {
  const TypeRow* found = find_type(static_cast<uint32_t>(type));
  BILLOW_CHECK(found != nullptr);
  return *found;
}

size_t row_bytes(Type type, size_t n) noexcept {
  const TypeRow& format = row(type);
  BILLOW_CHECK(n % format.group_len == 0);
  return n / format.group_len * format.group_bytes;
}

}  // namespace billow::quant
