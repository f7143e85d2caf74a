#include "base/suggestion.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace billow {
namespace {

constexpr size_t kMaxSuggestions = 3;
constexpr size_t kMinWordBytes = 3;   // one edit changes half of a shorter word
constexpr size_t kMaxWordBytes = 64;  // longer words get no suggestion: the distance costs n * m

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table d[i][j], the distance of the first i bytes of a and the first j of b.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::vector<std::string> similar_words(std::string_view word, std::span<const std::string> words) {
  if (word.size() < kMinWordBytes || word.size() > kMaxWordBytes) return {};
  const std::string typed = lower_case(word);
  struct Candidate {
    size_t distance;
    size_t n_different;  // bytes after the common beginning: a tie goes to the longest one
    std::string word;
  };
  std::vector<Candidate> found;
  for (const std::string& known : words) {
    if (known.size() > kMaxWordBytes) continue;
    const std::string candidate = lower_case(known);
    const bool is_beginning = typed.size() >= 2 && candidate.starts_with(typed);
    const size_t distance = is_beginning ? 1 : edit_distance(typed, candidate);
    const size_t longest = std::max(typed.size(), candidate.size());
    if (distance > std::max<size_t>(1, longest / 3)) continue;
    found.push_back({distance, longest - common_beginning(typed, candidate), known});
  }
  std::ranges::sort(found, {}, [](const Candidate& candidate) {
    return std::tie(candidate.distance, candidate.n_different, candidate.word);
  });
  std::vector<std::string> similar;
  for (const Candidate& candidate : found) {
    if (similar.size() == kMaxSuggestions || candidate.distance > found.front().distance + 1) break;
    similar.push_back(candidate.word);
  }
  return similar;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> words) {
  std::string text;
  for (const std::string& similar : similar_words(word, words))
    text += (text.empty() ? "; did you mean '" : " or '") + similar + "'";
  return text.empty() ? text : text + "?";
}

}  // namespace billow
