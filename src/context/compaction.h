// What a sequence keeps when its context is full: pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

enum class OverflowPolicy : uint8_t {
  kRefill,  // what is kept is evaluated again, at positions from 0
  kShift,   // its KV stays; queries are rotated by what the positions have moved
  kStop,    // the answer ends
};

// Some models refill where others shift: a recurrent state holds what is to be dropped, and a text
// that becomes a long one (LongRoPE) is evaluated again as a whole.
constexpr OverflowPolicy possible_policy(OverflowPolicy wanted, bool can_shift) {
  return wanted == OverflowPolicy::kShift && !can_shift ? OverflowPolicy::kRefill : wanted;
}

struct CompactionOptions {
  size_t reserve_batches = 9;  // recent tokens that are kept, in batches; more keep more
  size_t batch = 64;           // tokens
};

// Of the tokens that are evaluated, the first `anchor` (the prompt) and the most recent keep -
// anchor stay.
struct Compaction {
  size_t anchor = 0;
  size_t keep = 0;
  size_t drop = 0;
  bool operator==(const Compaction&) const = default;
};

// The longest anchor with which a full context of this size can be compacted: half of it.
inline constexpr size_t longest_anchor(size_t context) { return context / 2; }

// At least this much is freed: 64 tokens, or a sixteenth of the context if that is more; of a
// context below 128, half.
size_t min_freed(size_t context);

// For a sequence whose n_held evaluated tokens fill its context; n_held >= 2. keep = anchor +
// reserved batches, as far as that frees enough.
// REQUIRES: n_anchor <= longest_anchor(n_held).
Compaction plan_compaction(size_t n_held, size_t n_anchor, const CompactionOptions& options);

}  // namespace billow::context
