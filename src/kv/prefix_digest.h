// Digests of prefixes that are the same on every machine. A load balancer uses them to find the
// server that has a prompt cached. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace billow::kv {

// Returns one digest for each whole block of `tokens`: XXH64(digest of the block before, the
// block's ids), both as little-endian bytes. For the first block, the digest before is XXH64(root).
// `root` names what the KV depends on: another model, adapter or KV format gives other digests.
std::vector<uint64_t> prefix_digests(std::string_view root, std::span<const int32_t> tokens);

}  // namespace billow::kv
