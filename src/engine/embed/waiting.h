// Texts that wait for a pass, and whose turn it is: in the order of their arrival for each client,
// one of each client in turn, and those of bulk work when no others wait. Clients with little go
// before one that fills passes. Pure; its owner locks.
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
  uint64_t job = 0;  // whose it is
  size_t index = 0;  // in that job
  size_t n_tokens = 0;
};

class EmbedWaiting {
 public:
  struct Count {
    size_t n_texts = 0;
    size_t n_tokens = 0;
  };

  void push(const std::string& client, bool is_bulk, WaitingText text);
  // Those of a job, which came with this client and kind. Returns how many there were.
  Count remove(const std::string& client, bool is_bulk, uint64_t job);
  // Moves the texts of the next pass to the end of `taken`: in their turn, as long as together they
  // have at most `tokens`; the first may have up to `room`, alone. None is passed over: the one
  // that does not fit is the first of the next pass. Bulk texts share no pass with others, which
  // would wait for them; nor do, every other time, texts of a client that could nearly fill a long
  // pass share it with those of clients who have an eighth of it or less.
  void take(size_t tokens, size_t room, std::vector<WaitingText>& taken);
  const Count& count() const noexcept { return count_; }

 private:
  struct Client {
    std::string name;
    std::deque<WaitingText> texts;
    size_t n_tokens = 0;
  };
  using Clients = std::list<Client>;
  // Clients with texts, in their turn.
  class Turns {
   public:
    bool empty() const noexcept { return clients_.empty(); }
    void push(const std::string& client, const WaitingText& text);
    Count remove(const std::string& client, uint64_t job);
    // Whether somebody has so many tokens.
    bool has_client_of(size_t tokens) const;
    // Whose turn it is among those with at most so many tokens; null: there are none.
    const Client* next(size_t max_tokens) const;
    void pop_text(const Client& client);  // its first

   private:
    Clients clients_;
    std::map<std::string, Clients::iterator, std::less<>> by_name_;
  };
  Turns& turns(bool is_bulk) { return is_bulk ? bulk_ : interactive_; }

  Turns interactive_;
  Turns bulk_;
  Count count_;
  bool had_little_ = false;  // the last pass was of those with little alone
};

}  // namespace billow::engine
