// Decides which messages of a chat stay if its prompt is too long: pure arithmetic with a function
// that counts tokens.
//
// Leaves out whole turns, oldest first, up to one of a few positions: the cuts. The position of a
// cut depends only on the messages before it. So a growing chat is cut at the same place for
// several turns, and its prompts have the same prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace billow::context {

enum class ChatRole : uint8_t {
  kSystem,    // always stays
  kQuestion,  // of the user; begins a turn
  kAnswer,    // of the model, including a tool call
  kResult,    // of a tool
};

struct ChatMessage {
  ChatRole role = ChatRole::kQuestion;
  // Approximate number of tokens that the message adds to a prompt, independent of its neighbours.
  size_t n_tokens = 0;
};

// The cuts of a chat. Immutable; thread-safe.
class ChatCuts {
 public:
  // System messages stay. So do the last message and the messages that it needs: the last question
  // and, if the last message is the result of a tool, the call and its other results. The rest is
  // left out in turns: a question with all messages that answer it. After the last question, the
  // model's calls, each with its results, are left out one by one. Neighbouring turns share a cut
  // while they have at most `step` tokens together.
  ChatCuts(std::span<const ChatMessage> messages, size_t step);

  // Cut 0 leaves nothing out. The last cut leaves out everything that may be left out.
  size_t n_cuts() const { return ends_.size(); }
  // Returns the indices of the messages that stay, ascending.
  std::vector<size_t> kept(size_t cut) const;
  // Returns the approximate number of tokens that a cut leaves out.
  size_t n_tokens_out(size_t cut) const { return n_tokens_out_[cut]; }

 private:
  size_t n_messages_ = 0;
  std::vector<size_t> droppable_;     // indices of messages, ascending
  std::vector<size_t> ends_;          // [cut] how many of droppable_ are left out
  std::vector<size_t> n_tokens_out_;  // [cut]
};

// Returns the max number of tokens in neighbouring turns that share a cut; at least 1. It is half
// of `limit` minus system messages and `n_fixed` other tokens. So after a cut, about half of the
// context is free for further turns, and each token of a chat is evaluated about twice.
size_t cut_step(std::span<const ChatMessage> messages, size_t limit, size_t n_fixed);

struct FittingMessages {
  std::vector<size_t> kept;  // indices, ascending
  bool fits = false;         // false: the messages are too long, but no more may be left out
};

// Finds the first cut whose prompt has at most `limit` tokens. `count` returns the exact number of
// prompt tokens for the given messages. `n_whole` is that number for all messages; it is more than
// `limit`. `n_fixed`: see cut_step(). Calls `count` about twice if the messages' n_tokens are
// right, and at most 2 + log2(cuts) times. Exceptions from `count` pass through. The last call of
// `count` that returned at most `limit` was for the result. If no cut fits, the last call was for
// the result.
FittingMessages fitting_messages(std::span<const ChatMessage> messages, size_t limit,
                                 size_t n_fixed, size_t n_whole,
                                 const std::function<size_t(std::span<const size_t> kept)>& count);

}  // namespace billow::context
