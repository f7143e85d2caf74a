// Plans the download of a large blob in parts. Each part uses its own connection and records its
// progress for a restart after a crash. Part sizes and record texts are those of Ollama's programs,
// so that either program can resume the other's download. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::registry {

// All numbers are bytes.
struct Part {
  uint64_t offset = 0;  // in the blob
  uint64_t size = 0;
  uint64_t completed = 0;  // stored bytes from the part's beginning

  uint64_t end() const noexcept { return offset + size; }
  bool operator==(const Part&) const = default;
};

// Limits of a part's size in bytes.
struct PartSizes {
  uint64_t min = 100'000'000;
  uint64_t max = 1'000'000'000;
};

// Returns the parts of a blob: 16 equal parts, as far as the size limits allow. Returns no parts
// for 0 bytes.
std::vector<Part> plan_parts(uint64_t n_bytes, PartSizes sizes = {});

// Returns one line of JSON: {"N":0,"Offset":0,"Size":100000000,"Completed":0}
std::string to_text(size_t index, const Part& part);

// A part with its index among all parts.
struct IndexedPart {
  size_t index = 0;
  Part part;
  bool operator==(const IndexedPart&) const = default;
};
// Parses the text of to_text(). Returns nullopt for any other text, and if a part is fuller than
// its size.
std::optional<IndexedPart> parse_part(std::string_view text);

// Returns the parts read from files, in order. Returns nullopt unless the parts cover a blob of
// `n_bytes` exactly once, without a gap. The blob is then fetched from its beginning.
std::optional<std::vector<Part>> resumed_parts(std::vector<IndexedPart> found, uint64_t n_bytes);

uint64_t completed_bytes(const std::vector<Part>& parts) noexcept;

}  // namespace billow::registry
