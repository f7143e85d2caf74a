// Divides items among the members of a team. Each member has a separate range and takes runs from
// its front: a third of the rest each time, so runs are long first and single items at the end. A
// member without items takes the back half of another member's range. So members write separate
// cache lines until the end, a member has the same items in each region of the same size, and a
// slow member does not delay the others. With halves instead of thirds, a member of half the speed
// would end late.
#pragma once

#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "cpu/cache_line.h"

namespace billow::cpu {

// Returns the first item of a member's range of n items; the end of the last range if `member` is
// n_members.
constexpr size_t share_begin(size_t n, size_t member, size_t n_members) {
  return n * member / n_members;
}

class Shares {
 public:
  struct Run {
    size_t begin = 0;
    size_t end = 0;  // equal to begin: no items are left
  };

  explicit Shares(size_t n_members) : ranges_(n_members), words_((n_members + 63) / 64) {}

  // Begins with the items [0, n), n < 2^32. No other thread may use the object meanwhile.
  void reset(size_t n) noexcept {
    reset([&](size_t member) { return share_begin(n, member, ranges_.size()); });
  }
  // The same. A member's range is [begin_of(member), begin_of(member + 1)).
  template <class BeginOf>
    requires std::invocable<BeginOf, size_t>
  void reset(const BeginOf& begin_of) noexcept {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const Run run{begin_of(i), begin_of(i + 1)};
      BILLOW_CHECK(run.begin <= run.end && run.end <= UINT32_MAX);
      ranges_[i].items.store(packed(run), std::memory_order_relaxed);
      mark(i, run.begin < run.end);
    }
  }

  // Returns the next items for a member. Each item is returned once. Without blocking; any thread,
  // but one thread at a time for each member.
  Run take(size_t member) noexcept {
    const Run own = split(ranges_[member], [](Run run) { return Run{run.begin, front(run)}; });
    if (own.begin < own.end) return own;
    mark(member, false);
    for (size_t victim = richest(member); victim < ranges_.size(); victim = richest(member)) {
      const Run stolen = steal(victim);
      if (stolen.begin == stolen.end) continue;  // others were faster
      const size_t end = front(stolen);
      if (end < stolen.end) {  // other members may take from these items, too
        ranges_[member].items.store(packed({end, stolen.end}), std::memory_order_relaxed);
        mark(member, true);
      }
      return {stolen.begin, end};
    }
    return {};
  }

 private:
  struct alignas(kCacheLine) Range {
    std::atomic<uint64_t> items{0};  // begin in the high half, end in the low half
  };

  // A bit for each of 64 members: its range may have items. So a member that finds no items reads
  // few cache lines.
  struct alignas(kCacheLine) Word {
    std::atomic<uint64_t> has_items{0};
  };

  void mark(size_t member, bool has_items) noexcept {
    std::atomic<uint64_t>& word = words_[member / 64].has_items;
    const uint64_t bit = uint64_t{1} << member % 64;
    if (((word.load(std::memory_order_relaxed) & bit) != 0) == has_items) return;
    has_items ? word.fetch_or(bit, std::memory_order_relaxed)
              : word.fetch_and(~bit, std::memory_order_relaxed);
  }

  // Returns the member with the most items among the first kCandidates that have any, after
  // `member`. Returns at least the number of members if no range has items.
  size_t richest(size_t member) const noexcept {
    constexpr size_t kCandidates = 8;
    const size_t n_words = words_.size();
    const uint64_t above = ~uint64_t{0} << member % 64;
    size_t n_found = 0;
    size_t most = 0;
    size_t best = ranges_.size();
    // The first word twice: its upper members first, its lower members last.
    for (size_t i = 0; i <= n_words; ++i) {
      const size_t word = (member / 64 + i) % n_words;
      uint64_t others = words_[word].has_items.load(std::memory_order_relaxed);
      if (i == 0) others &= above;
      if (i == n_words) others &= ~above;
      for (; others != 0 && n_found < kCandidates; others &= others - 1) {
        const size_t other = word * 64 + static_cast<size_t>(std::countr_zero(others));
        const Run rest = unpacked(ranges_[other].items.load(std::memory_order_relaxed));
        if (rest.begin >= rest.end) continue;
        ++n_found;
        if (rest.end - rest.begin <= most) continue;
        most = rest.end - rest.begin;
        best = other;
      }
    }
    return best;
  }

  Run steal(size_t member) noexcept {
    return split(ranges_[member], [](Run run) { return Run{run.end - half(run), run.end}; });
  }

  static uint64_t packed(Run run) noexcept { return uint64_t{run.begin} << 32 | run.end; }
  static Run unpacked(uint64_t items) noexcept {
    return {static_cast<size_t>(items >> 32), static_cast<size_t>(items & UINT32_MAX)};
  }
  // Both round up, so that a part is not empty.
  static size_t front(Run run) noexcept { return run.begin + (run.end - run.begin + 2) / 3; }
  static size_t half(Run run) noexcept { return (run.end - run.begin + 1) / 2; }

  // Removes part(rest) from the rest of a range and returns it. A part is at the front or at the
  // back.
  template <class Part>
  static Run split(Range& range, const Part& part) noexcept {
    uint64_t items = range.items.load(std::memory_order_relaxed);
    for (;;) {
      const Run rest = unpacked(items);
      if (rest.begin >= rest.end) return {};
      const Run taken = part(rest);
      const Run left =
          taken.begin == rest.begin ? Run{taken.end, rest.end} : Run{rest.begin, taken.begin};
      if (range.items.compare_exchange_weak(items, packed(left), std::memory_order_relaxed))
        return taken;
    }
  }

  std::vector<Range> ranges_;
  std::vector<Word> words_;
};

}  // namespace billow::cpu
