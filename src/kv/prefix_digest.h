// Names of the beginnings of texts that are the same on every machine, so that a balancer can tell
// where a prompt is known. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace billow::kv {

// One for each whole block of `tokens`: XXH64(digest of the block before, the block's ids), both as
// little-endian bytes. Before the first stands XXH64(root), which says what the KV is of: another
// model, adapter or KV format has other digests.
std::vector<uint64_t> prefix_digests(std::string_view root, std::span<const int32_t> tokens);

}  // namespace billow::kv
