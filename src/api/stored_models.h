// Answers questions about stored models from their files: listings and single models. A model whose
// files do not answer delays no request for another model; listings omit it. Thread-safe. REQUIRES:
// the store outlives this object.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "api/lookups.h"
#include "base/error.h"
#include "base/log.h"
#include "http/status.h"
#include "store/store.h"

namespace billow::api {

class StoredModels {
 public:
  explicit StoredModels(const store::Store& store) : store_(store) {}

  const store::Store& store() const noexcept { return store_; }

  // Returns the results of `read` for all models, sorted by name. `what` names one kind of result.
  // Omits models that cannot be read or do not answer, and logs them. Throws Error if the folders
  // cannot be read, and StatusError (503) if they do not answer.
  template <typename Result>
  std::vector<Result> each(const std::string& what,
                           std::function<std::optional<Result>(const store::Name&)> read);

  // Returns all models, newest first.
  std::vector<store::StoredModel> list();

  // Returns the result of `read`, or throws its exception. Throws StatusError (503) if it takes too
  // long. `stop` is set when the client disconnects. `what` is a key for Lookups::get().
  template <typename Result>
  Result one(const std::string& what, std::stop_token stop, std::function<Result()> read,
             std::chrono::milliseconds timeout = kOneTimeout) {
    return *lookups_.get<Result>(what, {.timeout = timeout, .stop = std::move(stop)},
                                 [read = std::move(read)](std::stop_token) { return read(); });
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kOneTimeout{30'000};
  static constexpr std::chrono::milliseconds kListTimeout{5'000};
  // Time limit of a listing in which some models do not answer, and min time for each model then.
  static constexpr std::chrono::milliseconds kSlowListTimeout{15'000};
  static constexpr std::chrono::milliseconds kMinTimeout{200};

  template <typename Result>
  static void add(std::vector<Result>& results, const store::Name& name,
                  const std::function<std::optional<Result>(const store::Name&)>& read);

  const store::Store& store_;
  Lookups lookups_;
};

template <typename Result>
void StoredModels::add(std::vector<Result>& results, const store::Name& name,
                       const std::function<std::optional<Result>(const store::Name&)>& read) {
  try {
    if (std::optional<Result> result = read(name)) results.push_back(std::move(*result));
  } catch (const Error& error) {
    log::warn(std::string(error.what()) + "; the listing omits it");
  }
}

template <typename Result>
std::vector<Result> StoredModels::each(
    const std::string& what, std::function<std::optional<Result>(const store::Name&)> read) {
  using Results = std::vector<Result>;
  const auto names = lookups_.get<std::vector<store::Name>>(
      "the names of the stored models", {.timeout = kListTimeout},
      [this](std::stop_token) { return store_.names(); });
  try {
    return *lookups_.get<Results>(what + " of all models", {.timeout = kListTimeout},
                                  [names, read](std::stop_token stop) {
                                    Results results;
                                    for (const store::Name& name : *names)
                                      if (!stop.stop_requested()) add(results, name, read);
                                    return results;
                                  });
  } catch (const http::StatusError& error) {
    log::debug(std::string(error.what()) + "; reading the models one by one");
  }
  Results results;
  const Clock::time_point until = Clock::now() + kSlowListTimeout;
  for (const store::Name& name : *names) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    try {
      const auto read_one = [name, read](std::stop_token) {
        Results one;
        add(one, name, read);
        return one;
      };
      const auto one =
          lookups_.get<Results>(what + " of model '" + store::display_name(name) + "'",
                                {.timeout = std::clamp(left, kMinTimeout, kListTimeout)}, read_one);
      results.insert(results.end(), one->begin(), one->end());
    } catch (const http::StatusError& error) {
      log::debug(std::string(error.what()) + "; the listing omits it");
    }
  }
  return results;
}

inline std::vector<store::StoredModel> StoredModels::list() {
  std::vector<store::StoredModel> models = each<store::StoredModel>(
      "the manifest", [this](const store::Name& name) { return store_.read(name); });
  std::ranges::sort(models, store::is_newer);
  return models;
}

}  // namespace billow::api
