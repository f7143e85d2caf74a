#include "api/openai/response_store.h"

#include <utility>

#include "api/fields.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

// Estimated memory of a map entry, a pointer and their overhead.
constexpr size_t kOverhead = 200;

// Makes a value whose bytes count until it is deleted.
template <typename Value>
std::shared_ptr<const Value> counted_value(Value value, size_t n_bytes,
                                           std::shared_ptr<std::atomic<size_t>> sum) {
  n_bytes += kOverhead;
  *sum += n_bytes;
  return std::shared_ptr<const Value>(new Value(std::move(value)),
                                      [n_bytes, sum = std::move(sum)](const Value* gone) {
                                        *sum -= n_bytes;
                                        delete gone;
                                      });
}

}  // namespace

ResponseStore::ResponseStore(const ResponseLimits& limits, SteadyNow now)
    : limits_(limits), now_(std::move(now)), n_bytes_(std::make_shared<std::atomic<size_t>>(0)) {}

std::shared_ptr<const ResponseItem> ResponseStore::item(const Json& json) {
  ResponseItem item{.id = json.at("id").get<std::string>(), .json = to_text(json)};
  const size_t n_bytes = item.id.size() + item.json.size();
  return counted_value(std::move(item), n_bytes, n_bytes_);
}

std::shared_ptr<const StoredResponse> ResponseStore::counted(StoredResponse response) const {
  const size_t n_bytes =
      response.json.size() + response.items.size() * sizeof(response.items.front());
  return counted_value(std::move(response), n_bytes, n_bytes_);
}

void ResponseStore::put(const std::string& id, StoredResponse response) {
  const std::scoped_lock lock(mutex_);
  for (const auto& item : response.items) items_[item->id] = item;
  responses_[id] = {counted(std::move(response)), now_()};
  order_.push_back(id);
  drop_old();
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  drop_old();
  const auto found = responses_.find(id);
  if (found == responses_.end()) return std::nullopt;
  return *found->second.response;
}

std::shared_ptr<const ResponseItem> ResponseStore::find_item(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  drop_old();
  const auto found = items_.find(id);
  return found == items_.end() ? nullptr : found->second.lock();
}

bool ResponseStore::erase(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  drop_old();
  std::erase(order_, id);
  return responses_.erase(id) > 0;
}

void ResponseStore::drop_old() {
  const metrics::Clock::time_point oldest = now_() - limits_.max_age;
  while (!order_.empty()) {
    const auto found = responses_.find(order_.front());
    const bool is_gone = found == responses_.end();
    if (!is_gone && found->second.since >= oldest && *n_bytes_ <= limits_.max_bytes) break;
    if (!is_gone) responses_.erase(found);
    order_.pop_front();
  }
  std::erase_if(items_, [](const auto& entry) { return entry.second.expired(); });
}

ResponseStore& ResponseStores::of(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<ResponseStore>& store = stores_[key];
  if (store == nullptr) store = std::make_unique<ResponseStore>();
  return *store;
}

}  // namespace billow::api::openai
