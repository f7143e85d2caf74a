// The API keys of a server: finds the account of a key, and limits what an account does. Reads its
// file again when the file has changed. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keys/keys_file.h"
#include "keys/token_bucket.h"

namespace billow::keys {

// Why a request is refused.
enum class Refusal : uint8_t {
  kNoKey,        // 401: the request has no key
  kUnknownKey,   // 401: no account has the key
  kRole,         // 403: the account lacks the role
  kMaxRequests,  // 429: too many requests of the account at the same time
  kTokens,       // 429: the account has used its tokens of this minute
};
inline constexpr size_t kNumRefusals = 5;
// Returns "no_key", "unknown_key", "role", "max_requests" or "tokens", for metrics.
std::string_view refusal_name(Refusal refusal) noexcept;

struct AccountCounts {
  std::string name;
  size_t n_running = 0;      // requests that have begun and not ended
  uint64_t n_requests = 0;   // that have begun
  uint64_t n_evaluated = 0;  // tokens of prompts and texts that were not cached
  uint64_t n_generated = 0;  // tokens
  std::array<uint64_t, kNumRefusals> n_refused{};  // [Refusal]
};

// What one key may do and has done. An account keeps its counts if its name is still in the file
// when the file is read again.
class Account {
 public:
  Account(const KeyRecord& record, Time now);

  const std::string& name() const noexcept { return name_; }
  Roles roles() const;
  uint32_t weight() const;
  void set(const KeyRecord& record, Time now);

  // Counts as one running request of the account until it is destroyed. One thread.
  class Use {
   public:
    Use(std::shared_ptr<Account> account, bool is_limited)
        : account_(std::move(account)), is_limited_(is_limited) {}
    Use(Use&&) noexcept = default;
    Use& operator=(Use&& other) noexcept {
      account_.swap(other.account_);
      std::swap(is_limited_, other.is_limited_);
      return *this;
    }
    ~Use();

   private:
    std::shared_ptr<Account> account_;
    bool is_limited_ = false;
  };
  struct Begin {
    std::optional<Use> use{};  // nullopt: refused
    Refusal refusal = Refusal::kNoKey;
    int64_t retry_after = 0;  // seconds until another attempt can succeed
    std::string why{};        // one line
  };
  // Begins a request. With `is_limited`, the limits apply. Otherwise the request is only counted,
  // and uses up no place of max_requests.
  static Begin begin(const std::shared_ptr<Account>& account, bool is_limited, Time now);

  // Takes tokens from the account's budget.
  void take(uint64_t n_evaluated, uint64_t n_generated, Time now);
  void count_refusal(Refusal refusal);
  AccountCounts counts() const;

 private:
  const std::string name_;
  mutable std::mutex mutex_;
  Roles roles_;
  Limits limits_;
  TokenBucket bucket_;
  AccountCounts counts_;
  size_t n_limited_ = 0;  // of the running requests, those with limits
};

class KeyRing {
 public:
  // Reads the file. Throws Error if that fails.
  KeyRing(std::string path, Time now);

  // Returns the account of a key; null if there is none. Only the SHA-256 of the key is compared.
  // So the time of the look-up depends on the digest, and a client cannot choose the digest's bytes
  // one after another.
  std::shared_ptr<Account> find(std::string_view key) const;
  // Returns the account of this name; null if the file has no such key any more.
  std::shared_ptr<Account> account(std::string_view name) const;

  // Reads the file again if it has changed and two calls see the same version: a program may be
  // writing the file in place. Each tenth call reads a file that changes all the time. If the file
  // cannot be read or has a fault, the keys stay, and one line goes to the log. The same fault of
  // the same file is reported once.
  void refresh(Time now);

  // Counts a refused request that belongs to no account.
  void count_refusal(Refusal refusal);

  struct Counts {
    std::vector<AccountCounts> accounts;             // by name
    std::array<uint64_t, kNumRefusals> n_refused{};  // of no account
    uint64_t n_read_failures = 0;
  };
  Counts counts() const;

 private:
  // Identifies a version of the file. A rename over the file changes the inode, which is `number`.
  struct Version {
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    uint64_t n_bytes = 0;
    uint64_t number = 0;
    bool operator==(const Version&) const = default;
  };
  struct Changed {
    std::optional<Version> version;  // none: the file is missing
    int n_checks = 0;                // that saw a new version
  };
  using Accounts = std::map<std::string, std::shared_ptr<Account>, std::less<>>;

  std::optional<Version> version() const;
  void read(Time now);

  const std::string path_;
  std::mutex refresh_mutex_;  // one refresh at a time; guards the next three members
  std::optional<Version> seen_;
  std::optional<Changed> changed_;  // the last refresh saw a new version, which is not read yet
  std::string read_failure_;        // of the last refresh; empty: the file was read
  mutable std::mutex mutex_;        // guards the members below
  std::map<store::Digest, std::shared_ptr<Account>> by_digest_;
  Accounts accounts_;
  std::array<uint64_t, kNumRefusals> n_refused_{};
  uint64_t n_read_failures_ = 0;
};

}  // namespace billow::keys
