#include "context/truncation.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"

namespace billow::context {

std::vector<size_t> fitting_messages(
    std::span<const ChatMessage> messages, size_t limit,
    const std::function<size_t(std::span<const size_t> kept)>& count) {
  std::vector<size_t> kept(messages.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  const auto may_go = [&](size_t i) { return !messages[i].is_system && i + 1 < messages.size(); };
  for (;;) {
    const size_t n_tokens = count(kept);
    if (n_tokens <= limit) return kept;
    auto oldest = std::ranges::find_if(kept, may_go);
    if (oldest == kept.end()) {
      throw Error(ErrorCode::kTooLarge,
                  "the system message and the last one have " + std::to_string(n_tokens) +
                      " tokens, more than the " + std::to_string(limit) +
                      " that a prompt may have here; shorten them or allow a larger context");
    }
    do {
      oldest = kept.erase(oldest);
    } while (oldest != kept.end() && may_go(*oldest) && messages[*oldest].is_answer);
  }
}

size_t left_by_ollama(size_t context, int64_t keep) {
  if (context == 0) return 0;
  const size_t kept = keep < 0 ? 0 : std::min(static_cast<size_t>(keep), context - 1);
  return context - std::max<size_t>(1, (context - kept) / 2);
}

}  // namespace billow::context
