#include "kv/prefix_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kv/layout.h"

namespace billow::kv {

static_assert(std::endian::native == std::endian::little);

std::vector<uint64_t> prefix_digests(std::string_view root, std::span<const int32_t> tokens) {
  // The digest before, as two values of 32 bits, and the ids of a block.
  std::array<uint32_t, 2 + kBlockPositions> bytes = {};
  uint64_t digest = XXH64(root.data(), root.size(), 0);
  std::vector<uint64_t> digests;
  for (size_t at = 0; at + kBlockPositions <= tokens.size(); at += kBlockPositions) {
    bytes[0] = static_cast<uint32_t>(digest);
    bytes[1] = static_cast<uint32_t>(digest >> 32);
    std::ranges::transform(tokens.subspan(at, kBlockPositions), bytes.begin() + 2,
                           [](int32_t token) { return static_cast<uint32_t>(token); });
    digest = XXH64(bytes.data(), sizeof bytes, 0);
    digests.push_back(digest);
  }
  return digests;
}

}  // namespace billow::kv
