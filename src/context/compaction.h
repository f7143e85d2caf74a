// Decides which tokens a sequence keeps when its context is full: pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

enum class OverflowPolicy : uint8_t {
  kRefill,  // evaluates the kept tokens again, at positions from 0
  kShift,   // keeps their KV; rotates queries by the distance that the positions have moved
  kStop,    // ends the answer
};

// Returns the policy that the model allows. Some models refill instead of shifting. A recurrent
// state contains the dropped tokens, so it cannot be shifted. A text that becomes a long one
// (LongRoPE) is evaluated again as a whole.
constexpr OverflowPolicy possible_policy(OverflowPolicy wanted, bool can_shift) {
  return wanted == OverflowPolicy::kShift && !can_shift ? OverflowPolicy::kRefill : wanted;
}

struct CompactionOptions {
  size_t reserve_batches = 9;  // recent tokens to keep, in batches
  size_t batch = 64;           // tokens
};

// Result of plan_compaction(). Of the evaluated tokens, the first `anchor` (the prompt) and the
// most recent keep - anchor stay.
struct Compaction {
  size_t anchor = 0;
  size_t keep = 0;
  size_t drop = 0;
  bool operator==(const Compaction&) const = default;
};

// Returns the longest anchor with which a full context of this size can be compacted: half of it.
inline constexpr size_t longest_anchor(size_t context) { return context / 2; }

// Returns the min number of tokens that a compaction frees: 64 tokens, or a sixteenth of the
// context if that is more. For a context below 128, half of it.
size_t min_freed(size_t context);

// Plans the compaction of a sequence whose n_held evaluated tokens fill its context. keep = anchor
// + reserved batches, reduced if that frees too little. REQUIRES: n_held >= 2 and n_anchor <=
// longest_anchor(n_held).
Compaction plan_compaction(size_t n_held, size_t n_anchor, const CompactionOptions& options);

}  // namespace billow::context
