#include "keys/key_ring.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace billow::keys {
namespace {

constexpr std::string_view kRefusalNames[kNumRefusals] = {"no_key", "unknown_key", "role",
                                                          "max_requests", "tokens"};

// Retry-After while an account has too many requests: nobody knows when one of them ends.
constexpr int64_t kBusySeconds = 1;

// A file that is different at this many checks is read, because a revoked key must not stay valid.
constexpr int kMaxChecks = 10;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::string_view refusal_name(Refusal refusal) noexcept {
  return kRefusalNames[static_cast<size_t>(refusal)];
}

Account::Account(const KeyRecord& record, Time now)
    : name_(record.name),
      roles_(record.roles),
      limits_(record.limits),
      bucket_(record.limits.tokens_per_minute, now) {
  counts_.name = name_;
}

Roles Account::roles() const {
  const std::scoped_lock lock(mutex_);
  return roles_;
}

uint32_t Account::weight() const {
  const std::scoped_lock lock(mutex_);
  return limits_.weight;
}

void Account::set(const KeyRecord& record, Time now) {
  const std::scoped_lock lock(mutex_);
  roles_ = record.roles;
  if (limits_.tokens_per_minute != record.limits.tokens_per_minute)
    bucket_.set_limit(record.limits.tokens_per_minute, now);
  limits_ = record.limits;
}

Account::Use::~Use() {
  if (account_ == nullptr) return;
  const std::scoped_lock lock(account_->mutex_);
  --account_->counts_.n_running;
  if (is_limited_) --account_->n_limited_;
}

Account::Begin Account::begin(const std::shared_ptr<Account>& account, bool is_limited, Time now) {
  Account& own = *account;
  const std::scoped_lock lock(own.mutex_);
  const auto refuse = [&](Refusal refusal, int64_t retry_after, std::string why) {
    ++own.counts_.n_refused[static_cast<size_t>(refusal)];
    return Begin{.refusal = refusal, .retry_after = retry_after, .why = std::move(why)};
  };
  const size_t max = own.limits_.max_requests;
  if (is_limited && max > 0 && own.n_limited_ >= max) {
    return refuse(Refusal::kMaxRequests, kBusySeconds,
                  fmt::format("the API key '{}' may have {} requests at the same time; wait for "
                              "one to end",
                              own.name_, max));
  }
  if (is_limited && !own.bucket_.admits(now)) {
    const int64_t seconds = own.bucket_.seconds_until_admits(now);
    return refuse(
        Refusal::kTokens, seconds,
        fmt::format("the API key '{}' has used its {} tokens per minute; try again in {} s",
                    own.name_, own.limits_.tokens_per_minute, seconds));
  }
  ++own.counts_.n_running;
  if (is_limited) ++own.n_limited_;
  ++own.counts_.n_requests;
  return {.use = Use(account, is_limited)};
}

void Account::take(uint64_t n_evaluated, uint64_t n_generated, Time now) {
  const std::scoped_lock lock(mutex_);
  counts_.n_evaluated += n_evaluated;
  counts_.n_generated += n_generated;
  bucket_.take(n_evaluated + n_generated, now);
}

void Account::count_refusal(Refusal refusal) {
  const std::scoped_lock lock(mutex_);
  ++counts_.n_refused[static_cast<size_t>(refusal)];
}

AccountCounts Account::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

KeyRing::KeyRing(std::string path, Time now) : path_(std::move(path)) {
  seen_ = version();
  read(now);
}

std::shared_ptr<Account> KeyRing::find(std::string_view key) const {
  const store::Digest digest = store::digest_of(key);
  const std::scoped_lock lock(mutex_);
  const auto found = by_digest_.find(digest);
  return found == by_digest_.end() ? nullptr : found->second;
}

std::shared_ptr<Account> KeyRing::account(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = accounts_.find(name);
  return found == accounts_.end() ? nullptr : found->second;
}

void KeyRing::refresh(Time now) {
  const std::scoped_lock turn(refresh_mutex_);
  const std::optional<Version> current = version();
  if (current == seen_) {
    changed_.reset();
    return;
  }
  const bool is_whole = changed_ && changed_->version == current;
  const int n_checks = changed_ ? changed_->n_checks + 1 : 1;
  changed_ = {current, n_checks};
  if (!is_whole && n_checks < kMaxChecks) return;
  try {
    read(now);
    seen_ = current;
    changed_.reset();
    read_failure_.clear();
    log::info("API keys were read again from " + path_);
  } catch (const std::exception& error) {
    // A file with mistakes is read again after its next change. A file that the system failed to
    // read is read again at the next refresh: a revoked key must not stay valid.
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool is_wrong = known != nullptr && (known->code() == ErrorCode::kInvalidInput ||
                                               known->code() == ErrorCode::kTooLarge);
    if (is_wrong || !current) {
      seen_ = current;
      changed_.reset();
    }
    if (std::exchange(read_failure_, error.what()) != error.what())
      log::warn(read_failure_ + "; the API keys stay as they were");
    const std::scoped_lock lock(mutex_);
    ++n_read_failures_;
  }
}

void KeyRing::count_refusal(Refusal refusal) {
  const std::scoped_lock lock(mutex_);
  ++n_refused_[static_cast<size_t>(refusal)];
}

KeyRing::Counts KeyRing::counts() const {
  const std::scoped_lock lock(mutex_);
  Counts counts{.accounts = {}, .n_refused = n_refused_, .n_read_failures = n_read_failures_};
  for (const auto& [name, account] : accounts_) counts.accounts.push_back(account->counts());
  return counts;
}

std::optional<KeyRing::Version> KeyRing::version() const {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return std::nullopt;
  return Version{.modified_ns = nanoseconds(status.st_mtim),
                 .changed_ns = nanoseconds(status.st_ctim),
                 .n_bytes = static_cast<uint64_t>(status.st_size),
                 .number = status.st_ino};
}

void KeyRing::read(Time now) {
  const std::vector<KeyRecord> records = parse_keys(read_keys_file(path_), path_);
  const std::scoped_lock lock(mutex_);
  std::map<store::Digest, std::shared_ptr<Account>> by_digest;
  Accounts accounts;
  for (const KeyRecord& record : records) {
    const auto old = accounts_.find(record.name);
    std::shared_ptr<Account> account =
        old == accounts_.end() ? std::make_shared<Account>(record, now) : old->second;
    if (old != accounts_.end()) account->set(record, now);
    by_digest.emplace(record.digest, account);
    accounts.emplace(record.name, std::move(account));
  }
  by_digest_ = std::move(by_digest);
  accounts_ = std::move(accounts);
}

}  // namespace billow::keys
