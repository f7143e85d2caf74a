// Whose request is next, among tenants that wait for the same runner. Start-time fair queueing:
// each tenant has an account of the work that its requests cost, and the tenant with the smallest
// account is next. So tenants that always have requests waiting get equal shares of the work, or
// shares by their weights, however many requests each of them sends. While a request runs, its
// expected cost counts for its own tenant only, because the real cost may be much smaller. Pure;
// one thread at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace billow::scheduler {

class FairTurns {
 public:
  bool empty() const noexcept { return accounts_.empty(); }

  // The first request of a tenant without requests arrives. The tenant gets nothing for the time
  // without requests. Forgets tenants without requests and without debts.
  // `is_active`: whether a tenant has requests.
  void join(const std::string& tenant, const std::function<bool(const std::string&)>& is_active) {
    std::erase_if(accounts_, [&](const auto& account) {
      return account.second.settled <= clock_ && !is_active(account.first);
    });
    Account& account = open(tenant);
    account.settled = std::max(account.settled, clock_);
  }

  // Returns the account of a tenant, with the expected costs of its running requests.
  double account(std::string_view tenant) const {
    const auto found = accounts_.find(tenant);
    return found == accounts_.end() ? clock_ : found->second.settled + found->second.expected;
  }

  // A request of the tenant begins, with the expected cost.
  void begin(const std::string& tenant, double expected) {
    Account& account = open(tenant);
    clock_ = std::max(clock_, account.settled);
    account.expected += expected;
  }

  // A request of the tenant ended. `expected` is the cost with which it began, `cost` its real one.
  void end(std::string_view tenant, double expected, double cost) {
    const auto found = accounts_.find(tenant);
    if (found == accounts_.end()) return;
    found->second.expected -= expected;
    found->second.settled += cost;
  }

 private:
  struct Account {
    double settled = 0.0;   // of requests that have ended
    double expected = 0.0;  // of running requests
  };

  Account& open(const std::string& tenant) {
    return accounts_.try_emplace(tenant, Account{.settled = clock_}).first->second;
  }

  std::map<std::string, Account, std::less<>> accounts_;
  double clock_ = 0.0;  // max settled account of a tenant whose request has begun
};

}  // namespace billow::scheduler
