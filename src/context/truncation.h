// What stays of a prompt that is too long: pure arithmetic over a function that counts tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace billow::context {

struct ChatMessage {
  bool is_system = false;
  bool is_answer = false;  // of the model: it is dropped with the question before it
};

// The indices of the messages that stay where a chat's prompt may have at most `limit` tokens:
// whole messages are dropped, from the oldest on, never a system message or the last one.
// `count` tells how many tokens the prompt of some of them has. Throws Error (kTooLarge) with both
// numbers when what always stays is too long.
std::vector<size_t> fitting_messages(
    std::span<const ChatMessage> messages, size_t limit,
    const std::function<size_t(std::span<const size_t> kept)>& count);

// How many tokens Ollama leaves of a full context when it cuts: the first `keep` (negative: none),
// and of the others the later half; at least one goes. For those who want its behaviour.
size_t left_by_ollama(size_t context, int64_t keep);

}  // namespace billow::context
