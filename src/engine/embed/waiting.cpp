#include "engine/embed/waiting.h"

#include <algorithm>
#include <cstdint>

namespace billow::engine {
namespace {

constexpr size_t kLongPass = 512;  // in tokens; a shorter pass delays other clients little

}  // namespace

void EmbedWaiting::Turns::push(const std::string& client, const WaitingText& text) {
  auto found = by_name_.find(client);
  if (found == by_name_.end()) {
    clients_.push_back({client, {}, 0});
    found = by_name_.emplace(client, std::prev(clients_.end())).first;
  }
  found->second->texts.push_back(text);
  found->second->n_tokens += text.n_tokens;
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
  found->second->n_tokens -= removed.n_tokens;
  if (found->second->texts.empty()) {
    clients_.erase(found->second);
    by_name_.erase(found);
  }
  return removed;
}

bool EmbedWaiting::Turns::has_client_of(size_t tokens) const {
  return std::ranges::any_of(clients_, [&](const Client& one) { return one.n_tokens >= tokens; });
}

const EmbedWaiting::Client* EmbedWaiting::Turns::next(size_t max_tokens) const {
  const auto has_at_most = [&](const Client& one) { return one.n_tokens <= max_tokens; };
  const auto found = std::ranges::find_if(clients_, has_at_most);
  return found == clients_.end() ? nullptr : &*found;
}

void EmbedWaiting::Turns::pop_text(const Client& client) {
  const auto named = by_name_.find(client.name);
  const auto found = named->second;
  found->n_tokens -= found->texts.front().n_tokens;
  found->texts.pop_front();
  if (found->texts.empty()) {
    by_name_.erase(named);
    clients_.erase(found);
  } else {
    clients_.splice(clients_.end(), clients_, found);
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
  Turns& turns = current();
  const Client* head = turns.next(SIZE_MAX);
  if (head == nullptr || head->texts.front().n_tokens > std::max(tokens, room)) return;
  const size_t little = tokens / 8;
  had_little_ = !had_little_ && tokens >= kLongPass && turns.next(little) != nullptr &&
                turns.has_client_of(tokens - little);
  const size_t max = had_little_ ? little : SIZE_MAX;
  size_t left = tokens;
  for (bool is_first = true; const Client* client = turns.next(max); is_first = false) {
    const WaitingText text = client->texts.front();
    if (text.n_tokens > (is_first ? std::max(tokens, room) : left)) return;
    left -= std::min(left, text.n_tokens);
    taken.push_back(text);
    pop_text(turns, *client);
  }
}

const WaitingText* EmbedWaiting::next() const {
  const Client* client = current().next(SIZE_MAX);
  return client == nullptr ? nullptr : &client->texts.front();
}

void EmbedWaiting::pop() {
  Turns& turns = current();
  pop_text(turns, *turns.next(SIZE_MAX));
}

void EmbedWaiting::pop_text(Turns& turns, const Client& client) {
  --count_.n_texts;
  count_.n_tokens -= client.texts.front().n_tokens;
  turns.pop_text(client);
}

}  // namespace billow::engine
