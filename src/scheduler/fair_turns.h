// Whose request is next, among tenants that wait for the same runner. Start-time fair queueing:
// each tenant has an account of the work that its requests cost, and the tenant with the smallest
// account is next. So tenants that always have requests waiting get equal shares of the work, or
// shares by their weights, however many requests each of them sends. Pure; one thread at a time.
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
      return account.second <= clock_ && !is_active(account.first);
    });
    double& account = accounts_.try_emplace(tenant, clock_).first->second;
    account = std::max(account, clock_);
  }

  // Returns the account of a tenant.
  double account(std::string_view tenant) const {
    const auto found = accounts_.find(tenant);
    return found == accounts_.end() ? clock_ : found->second;
  }

  // A request of the tenant begins, with the expected cost.
  void begin(const std::string& tenant, double cost) {
    double& account = accounts_.try_emplace(tenant, clock_).first->second;
    clock_ = std::max(clock_, account);
    account += cost;
  }

  // The cost of a request became known: it differs from the expected cost.
  void correct(std::string_view tenant, double difference) {
    if (const auto found = accounts_.find(tenant); found != accounts_.end())
      found->second += difference;
  }

 private:
  std::map<std::string, double, std::less<>> accounts_;
  double clock_ = 0.0;  // account of the tenant whose request began last
};

}  // namespace billow::scheduler
