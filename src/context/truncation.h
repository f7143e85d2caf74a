// What stays of a chat whose prompt is too long: pure arithmetic over a function that counts
// tokens.
//
// Whole turns are left out, from the oldest on, up to one of a few cuts. Where the cuts lie depends
// only on the messages before them. So a chat that grows is cut at the same place for several
// turns, and its prompt begins with the same tokens in each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace billow::context {

enum class ChatRole : uint8_t {
  kSystem,    // always stays
  kQuestion,  // of the user: it begins a turn
  kAnswer,    // of the model; a call of tools, too
  kResult,    // of a tool
};

struct ChatMessage {
  ChatRole role = ChatRole::kQuestion;
  size_t n_tokens = 0;  // about how many it adds to a prompt, whatever stands beside it
};

// The cuts of a chat. Immutable; any thread.
class ChatCuts {
 public:
  // System messages stay, and so do the last message and what it belongs to: the last question and,
  // where the last message is the result of a tool, the call and its other results. The rest is
  // left out in turns: a question with all that answers it. Behind the last question the model's
  // calls, each with its results, are left out one by one. Neighbours share a cut as long as they
  // have at most `step` tokens together.
  ChatCuts(std::span<const ChatMessage> messages, size_t step);

  // Cut 0 leaves nothing out, the last cut all that may go.
  size_t n_cuts() const { return ends_.size(); }
  // The indices of the messages that stay, ascending.
  std::vector<size_t> kept(size_t cut) const;
  // About how many tokens a cut leaves out.
  size_t n_tokens_out(size_t cut) const { return n_tokens_out_[cut]; }

 private:
  size_t n_messages_ = 0;
  std::vector<size_t> droppable_;     // indices of messages, ascending
  std::vector<size_t> ends_;          // by cut: how many of droppable_ are left out
  std::vector<size_t> n_tokens_out_;  // by cut
};

// How many tokens neighbouring turns may have to be left out together: half of what system messages
// and `n_fixed` other tokens leave of `limit`; at least 1. So at least about half of the room is
// free for further turns after a cut, and each token of a chat is read about twice.
size_t cut_step(std::span<const ChatMessage> messages, size_t limit, size_t n_fixed);

struct FittingMessages {
  std::vector<size_t> kept;  // indices, ascending
  bool fits = false;         // no: they are too long, but nothing more may be left out
};

// The first cut whose prompt has at most `limit` tokens. `count` has the exact number of tokens of
// the prompt of some messages. It is called about twice where the messages' own numbers are right,
// and never more than 2 + log2(cuts) times; what it throws is passed on. Its last call that came to
// at most `limit` was for the result; where nothing fits, its last call was. `n_whole` is the
// number for all messages, which is more than `limit`; `n_fixed` as above.
FittingMessages fitting_messages(std::span<const ChatMessage> messages, size_t limit,
                                 size_t n_fixed, size_t n_whole,
                                 const std::function<size_t(std::span<const size_t> kept)>& count);

// How many tokens Ollama leaves of a full context when it cuts: the first `keep` (negative: none),
// and of the others the later half; at least one goes. For those who want its behaviour.
size_t left_by_ollama(size_t context, int64_t keep);

}  // namespace billow::context
