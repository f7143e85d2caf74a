// How a large blob is fetched: in parts, each on its own connection, and what is known of each part
// after a crash. Sizes of parts and the text of their files are those of Ollama's programs, so that
// either program resumes what the other began. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::registry {

// Numbers are bytes.
struct Part {
  uint64_t offset = 0;  // in the blob
  uint64_t size = 0;
  uint64_t completed = 0;  // from the part's beginning on, on the disk

  uint64_t end() const noexcept { return offset + size; }
  bool operator==(const Part&) const = default;
};

// How many bytes a part has.
struct PartSizes {
  uint64_t min = 100'000'000;
  uint64_t max = 1'000'000'000;
};

// The parts of a blob: 16 equal ones as far as their sizes allow. None for no bytes.
std::vector<Part> plan_parts(uint64_t n_bytes, PartSizes sizes = {});

// One line of JSON: {"N":0,"Offset":0,"Size":100000000,"Completed":0}
std::string to_text(size_t index, const Part& part);

// A part by its index among all.
struct IndexedPart {
  size_t index = 0;
  Part part;
  bool operator==(const IndexedPart&) const = default;
};
// Nullopt for anything else than what to_text() gives, and for parts that are over-full.
std::optional<IndexedPart> parse_part(std::string_view text);

// The parts that were read from files, in their order. Nullopt unless they cover a blob of
// `n_bytes`, each once and without a gap: the blob is then fetched from its beginning.
std::optional<std::vector<Part>> resumed_parts(std::vector<IndexedPart> found, uint64_t n_bytes);

uint64_t completed_bytes(const std::vector<Part>& parts) noexcept;

}  // namespace billow::registry
