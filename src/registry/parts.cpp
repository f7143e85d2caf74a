#include "registry/parts.h"

#include <algorithm>

#include "base/json.h"

namespace billow::registry {
namespace {

constexpr uint64_t kWantedParts = 16;
// Larger than any blob. Sums of offsets and sizes then fit into 64 bits.
constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 62;

// Returns the value of a field; nullopt if it is not a whole number.
std::optional<uint64_t> number(const Json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<uint64_t>();
}

}  // namespace

std::vector<Part> plan_parts(uint64_t n_bytes, PartSizes sizes) {
  const uint64_t size = std::clamp(n_bytes / kWantedParts, sizes.min, sizes.max);
  std::vector<Part> parts;
  for (uint64_t offset = 0; offset < n_bytes; offset += parts.back().size)
    parts.push_back({.offset = offset, .size = std::min(size, n_bytes - offset)});
  return parts;
}

std::string to_text(size_t index, const Part& part) {
  return Json{
      {"N", index}, {"Offset", part.offset}, {"Size", part.size}, {"Completed", part.completed}}
      .dump();
}

std::optional<IndexedPart> parse_part(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto index = number(json, "N");
  const auto offset = number(json, "Offset");
  const auto size = number(json, "Size");
  const auto completed = number(json, "Completed");
  if (!index || !offset || !size || !completed) return std::nullopt;
  if (*offset > kMaxBlobBytes || *size > kMaxBlobBytes || *completed > *size) return std::nullopt;
  return IndexedPart{static_cast<size_t>(*index), {*offset, *size, *completed}};
}

std::optional<std::vector<Part>> resumed_parts(std::vector<IndexedPart> found, uint64_t n_bytes) {
  std::ranges::sort(found, {}, &IndexedPart::index);
  std::vector<Part> parts;
  uint64_t end = 0;
  for (const IndexedPart& one : found) {
    const bool fits = one.index == parts.size() && one.part.offset == end && one.part.size > 0 &&
                      one.part.size <= n_bytes - end;
    if (!fits) return std::nullopt;
    end = one.part.end();
    parts.push_back(one.part);
  }
  if (end != n_bytes || parts.empty()) return std::nullopt;
  return parts;
}

uint64_t completed_bytes(const std::vector<Part>& parts) noexcept {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.completed;
  return sum;
}

}  // namespace billow::registry
