#include "engine/pooling.h"

#include <algorithm>

#include "base/error.h"

namespace billow::engine {
namespace {

struct PoolingRow {
  Pooling pooling;
  std::string_view name;
  std::optional<uint64_t> number;  // in the file
};
constexpr PoolingRow kPoolings[] = {
    {Pooling::kNone, "none", 0}, {Pooling::kMean, "mean", 1}, {Pooling::kFirst, "cls", 2},
    {Pooling::kLast, "last", 3}, {Pooling::kRank, "rank", 4}, {Pooling::kMax, "max", std::nullopt}};

std::optional<uint64_t> stated_number(const gguf::File& file) {
  return file.get_uint(std::string(file.require_string("general.architecture")) + ".pooling_type");
}

const PoolingRow* row_of(uint64_t number) {
  const auto row = std::ranges::find(kPoolings, std::optional(number), &PoolingRow::number);
  return row == std::end(kPoolings) ? nullptr : row;
}

}  // namespace

std::string_view pooling_name(Pooling pooling) noexcept {
  return std::ranges::find(kPoolings, pooling, &PoolingRow::pooling)->name;
}

std::optional<Pooling> find_pooling(std::string_view name) noexcept {
  const auto row = std::ranges::find(kPoolings, name, &PoolingRow::name);
  return row == std::end(kPoolings) ? std::nullopt : std::optional(row->pooling);
}

Pooling pooling_of(const gguf::File& file) {
  const std::optional<uint64_t> number = stated_number(file);
  if (!number) return Pooling::kLast;
  if (const PoolingRow* row = row_of(*number)) return row->pooling;
  throw Error(ErrorCode::kUnsupported,
              file.path() + ": key " + std::string(file.require_string("general.architecture")) +
                  ".pooling_type is " + std::to_string(*number) +
                  "; 0 (none), 1 (mean), 2 (cls), 3 (last) and 4 (rank) are supported");
}

std::string stated_pooling(const gguf::File& file) {
  const std::optional<uint64_t> number = stated_number(file);
  if (!number) return "";
  const PoolingRow* row = row_of(*number);
  return row != nullptr ? std::string(row->name) : std::to_string(*number);
}

}  // namespace billow::engine
