#include "engine/embed/waiting.h"

#include <algorithm>

namespace billow::engine {

void EmbedWaiting::Turns::push(const std::string& client, const WaitingText& text) {
  auto found = by_name_.find(client);
  if (found == by_name_.end()) {
    clients_.push_back({client, {}});
    found = by_name_.emplace(client, std::prev(clients_.end())).first;
  }
  found->second->texts.push_back(text);
}

EmbedWaiting::Count EmbedWaiting::Turns::remove(const std::string& client, uint64_t job) {
  const auto found = by_name_.find(client);
  if (found == by_name_.end()) return {};
  Count removed;
  std::erase_if(found->second->texts, [&](const WaitingText& text) {
    if (text.job != job) return false;
    ++removed.n_texts;
    removed.n_tokens += text.n_tokens;
    return true;
  });
  if (found->second->texts.empty()) {
    clients_.erase(found->second);
    by_name_.erase(found);
  }
  return removed;
}

void EmbedWaiting::Turns::pop_first() {
  Client& client = clients_.front();
  client.texts.pop_front();
  if (client.texts.empty()) {
    by_name_.erase(client.name);
    clients_.pop_front();
  } else {
    clients_.splice(clients_.end(), clients_, clients_.begin());
  }
}

void EmbedWaiting::push(const std::string& client, bool is_bulk, WaitingText text) {
  turns(is_bulk).push(client, text);
  ++count_.n_texts;
  count_.n_tokens += text.n_tokens;
}

EmbedWaiting::Count EmbedWaiting::remove(const std::string& client, bool is_bulk, uint64_t job) {
  const Count removed = turns(is_bulk).remove(client, job);
  count_.n_texts -= removed.n_texts;
  count_.n_tokens -= removed.n_tokens;
  return removed;
}

void EmbedWaiting::take(size_t tokens, size_t room, std::vector<WaitingText>& taken) {
  Turns& turns = interactive_.empty() ? bulk_ : interactive_;
  size_t left = tokens;
  for (bool is_first = true; !turns.empty(); is_first = false) {
    const WaitingText text = turns.first();
    if (text.n_tokens > (is_first ? std::max(tokens, room) : left)) return;
    left -= std::min(left, text.n_tokens);
    --count_.n_texts;
    count_.n_tokens -= text.n_tokens;
    taken.push_back(text);
    turns.pop_first();
  }
}

}  // namespace billow::engine
