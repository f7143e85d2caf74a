// SentencePiece's precompiled character map: normalises text by replacing the longest known prefix.
// A double array of 32-bit nodes, each XOR-coded against its parent, then NUL-terminated
// replacements. Immutable; any thread may read. Source of the format: SentencePiece's normalizer
// and the darts-clone library.
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
  // `blob`: u32 size of the nodes in bytes, the nodes, the replacements. Throws Error
  // kInvalidInput, naming `name`, when the sizes do not agree or a replacement has no end.
  CharsMap(std::string_view blob, const std::string& name);

  struct Match {
    size_t n_bytes = 0;  // of the text that is replaced; 0: nothing is
    std::string_view replacement;
  };
  // The longest prefix of `text` that the map replaces. A node or replacement out of range counts
  // as none.
  Match longest_prefix(std::string_view text) const noexcept;

 private:
  std::vector<uint32_t> nodes_;
  std::string replacements_;  // ends with NUL unless empty
};

}  // namespace billow::tokenizer
