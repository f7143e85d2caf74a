// The queue of texts for passes. Each client's texts run in order of arrival, clients take turns,
// and bulk texts run only if no others are queued. Pure; the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace billow::engine {

struct WaitingText {
  uint64_t job = 0;  // id of the request
  size_t index = 0;  // index in the request
  size_t n_tokens = 0;
};

class EmbedWaiting {
 public:
  struct Count {
    size_t n_texts = 0;
    size_t n_tokens = 0;
  };

  void push(const std::string& client, bool is_bulk, WaitingText text);
  // Removes the texts of a job, which were queued with this client and kind. Returns how many there
  // were.
  Count remove(const std::string& client, bool is_bulk, uint64_t job);
  // Moves the texts of the next pass to the end of `taken`, by turns, at most `tokens` tokens
  // together. If the first text is longer, it may have up to `room` tokens and is alone. No text is
  // skipped: one that does not fit is the first of the next pass. Bulk texts never share a pass
  // with others, because the others would wait for them. Clients with few tokens go before a client
  // that fills passes: if one client could nearly fill a long pass, every other pass is only for
  // clients with at most an eighth of it.
  void take(size_t tokens, size_t room, std::vector<WaitingText>& taken);
  // Returns the text whose turn it is, or null if there are no texts. For owners that start texts
  // one at a time.
  const WaitingText* next() const;
  // Removes the text that next() returns. REQUIRES: there is one.
  void pop();
  const Count& count() const noexcept { return count_; }

 private:
  struct Client {
    std::string name;
    std::deque<WaitingText> texts;
    size_t n_tokens = 0;
  };
  using Clients = std::list<Client>;
  // Clients with texts, next one first.
  class Turns {
   public:
    bool empty() const noexcept { return clients_.empty(); }
    void push(const std::string& client, const WaitingText& text);
    Count remove(const std::string& client, uint64_t job);
    // Returns whether a client has at least `tokens` tokens.
    bool has_client_of(size_t tokens) const;
    // Returns the next client with at most max_tokens tokens, or null.
    const Client* next(size_t max_tokens) const;
    void pop_text(const Client& client);  // removes the client's first text

   private:
    Clients clients_;
    std::map<std::string, Clients::iterator, std::less<>> by_name_;
  };
  Turns& turns(bool is_bulk) { return is_bulk ? bulk_ : interactive_; }
  const Turns& current() const { return interactive_.empty() ? bulk_ : interactive_; }
  Turns& current() { return turns(interactive_.empty()); }
  void pop_text(Turns& turns, const Client& client);

  Turns interactive_;
  Turns bulk_;
  Count count_;
  bool had_little_ = false;  // the last pass was only for clients with few tokens
};

}  // namespace billow::engine
