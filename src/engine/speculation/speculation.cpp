#include "engine/speculation/speculation.h"

#include <algorithm>

namespace billow::engine {
namespace {

constexpr size_t kRecentTokens = size_t{1} << 16;

// As much of each draft as there are rows for.
std::vector<size_t> all_of(std::span<const std::span<const double>> chances, size_t max_rows) {
  std::vector<size_t> lengths;
  for (const std::span<const double> one : chances) {
    lengths.push_back(std::min(one.size(), max_rows));
    max_rows -= lengths.back();
  }
  return lengths;
}

}  // namespace

Speculation::Speculation(const SpeculationOptions& options)
    : options_(options), recent_(kRecentTokens) {}

std::vector<Draft> Speculation::draft(std::span<const Writer> writers,
                                      const DraftRoom& room) const {
  const size_t max_rows = std::min(room.max_rows, options_.max_draft);
  std::vector<Draft> drafts(writers.size());
  if (max_rows == 0) return drafts;
  std::vector<std::span<const double>> chances(writers.size());
  for (size_t i = 0; i < writers.size(); ++i) {
    const Writer& writer = writers[i];
    drafts[i] = writer.drafter->propose(writer.text, std::min(writer.max_tokens, max_rows));
    chances[i] = drafts[i].chances;
  }
  const DraftRoom within = {room.n_rows, room.n_writing, max_rows, options_.evaluates_again};
  const std::vector<size_t> lengths =
      options_.is_eager ? all_of(chances, max_rows) : plan_drafts(chances, within, cost_);
  for (size_t i = 0; i < writers.size(); ++i) {
    drafts[i].tokens.resize(lengths[i]);
    drafts[i].chances.resize(lengths[i]);
  }
  return drafts;
}

void Speculation::remember(std::span<const int32_t> answer) {
  if (options_.max_draft == 0 || answer.empty()) return;
  const size_t n = std::min(answer.size(), kRecentTokens / 4);
  for (const int32_t token : answer.first(n)) recent_.add(token);
  recent_.add_border();
}

}  // namespace billow::engine
