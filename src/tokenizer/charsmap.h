// SentencePiece's precompiled character map. It normalises text: it replaces the longest known
// prefix. Format: a double array of 32-bit nodes, each XOR-coded against its parent, then
// NUL-terminated replacements. Immutable; thread-safe. Source of the format: SentencePiece's
// normalizer and the darts-clone library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace billow::tokenizer {

class CharsMap {
 public:
  CharsMap() = default;  // replaces nothing
  // `blob`: the u32 size of the nodes in bytes, the nodes, the replacements. Throws Error
  // kInvalidInput, with `name`, if the sizes do not agree or a replacement has no end.
  CharsMap(std::string_view blob, const std::string& name);

  struct Match {
    size_t n_bytes = 0;  // length of the replaced text; 0: nothing is replaced
    std::string_view replacement;
  };
  // Returns the longest prefix of `text` that the map replaces. Ignores nodes and replacements that
  // are out of range.
  Match longest_prefix(std::string_view text) const noexcept;

 private:
  std::vector<uint32_t> nodes_;
  std::string replacements_;  // ends with NUL unless empty
};

}  // namespace billow::tokenizer
