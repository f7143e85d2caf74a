#include "cli/client/embed_work.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/client/show_text.h"
#include "metrics/request_id.h"

namespace billow::cli {
namespace {

constexpr std::chrono::milliseconds kShortestWait{100};
constexpr std::chrono::milliseconds kLongestWait{5'000};

[[noreturn]] void fail_invalid() {
  throw EmbedFailure(
      kTryAgain,
      "the server's response is invalid; is the program at this address a billow server?");
}

// Returns "FILE: row 17: WHY" or "FILE: rows 32 to 63: WHY".
std::string at_rows(const std::string& origin, uint64_t first, size_t n, const std::string& why) {
  std::string rows = "row " + std::to_string(first);
  if (n > 1) rows = "rows " + std::to_string(first) + " to " + std::to_string(first + n - 1);
  return origin + ": " + rows + ": " + why;
}

std::vector<float> floats_of(const Json& embedding) {
  if (!embedding.is_string()) fail_invalid();
  const auto bytes = base64_decoded(embedding.get_ref<const std::string&>());
  if (!bytes || bytes->size() % 4 != 0) fail_invalid();
  std::vector<float> values(bytes->size() / 4);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k)
      bits |= uint32_t{static_cast<unsigned char>((*bytes)[4 * i + k])} << (8 * k);
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

size_t count_of(std::string_view text) {
  size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

std::chrono::milliseconds wait_of(const http::Response& response) {
  const std::chrono::seconds asked(count_of(response.headers.get("Retry-After").substr(0, 4)));
  return std::clamp<std::chrono::milliseconds>(asked, kShortestWait, kLongestWait);
}

// Throws the EmbedFailure for an error response to a whole request.
[[noreturn]] void refuse(const http::Response& response, const EmbedWorkOptions& options,
                         const EmbedBatch& batch) {
  const int status = response.status;
  const std::string message = said_by(response.body);
  const std::string with_status = ApiError(status, message, true).what();
  if (status >= 500 || status == 429 || status == 408) throw EmbedFailure(kTryAgain, with_status);
  if (status == 400 || status == 413 || status == 422) {
    throw EmbedFailure(kInputFault,
                       at_rows(options.origin, batch.first_row, batch.texts.size(), message));
  }
  throw EmbedFailure(1, message.empty() ? with_status : message);
}

}  // namespace

std::string embed_request(const EmbedWorkOptions& options, const std::vector<std::string>& texts) {
  const VectorRecipe& recipe = options.recipe;
  Json body = {{"model", options.model}, {"encoding_format", "base64"}, {"partial", true}};
  Json& input = body["input"] = Json::array();
  for (const std::string& text : texts) input.push_back(recipe.prefix + text);
  if (recipe.dimensions > 0) body["dimensions"] = recipe.dimensions;
  if (!recipe.normalise) body["normalize"] = false;
  if (!recipe.pooling.empty()) body["pooling"] = recipe.pooling;
  if (recipe.truncation == "none") body["truncate"] = false;
  if (recipe.truncation == "left") body["truncation_direction"] = "left";
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_embed_answer(const std::string& body, const std::string& origin, EmbedBatch& batch) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("data")) fail_invalid();
  const Json& data = answer["data"];
  if (!data.is_array() || data.size() != batch.texts.size()) fail_invalid();
  batch.vectors.clear();
  for (size_t i = 0; i < data.size(); ++i) {
    const Json& entry = data[i];
    if (!entry.is_object()) fail_invalid();
    if (entry.contains("error")) {
      const bool is_of_host = count_field(entry, "status") >= 500;
      throw EmbedFailure(is_of_host ? kTryAgain : kInputFault,
                         at_rows(origin, batch.first_row + i, 1, text_field(entry, "error")));
    }
    if (!entry.contains("embedding")) fail_invalid();
    batch.vectors.push_back(floats_of(entry["embedding"]));
  }
}

EmbedWork::EmbedWork(const scheduler::Endpoint& endpoint, EmbedWorkOptions options)
    : options_(std::move(options)), client_id_(metrics::new_request_id()) {
  for (size_t i = 0; i < options_.n_jobs; ++i)
    clients_.push_back(std::make_unique<ApiClient>(endpoint));
  // These threads block all signals, so that the main thread or an InterruptWatch gets them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (const auto& client : clients_)
    threads_.emplace_back([this, &client = *client] { serve(client); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EmbedWork::~EmbedWork() {
  cancel();
  for (std::thread& thread : threads_) thread.join();
}

void EmbedWork::cancel() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }
  for (const auto& client : clients_) client->abandon();
  changed_.notify_all();
}

void EmbedWork::put(EmbedBatch batch) {
  auto slot = std::make_shared<Slot>();
  slot->batch = std::move(batch);
  {
    const std::lock_guard lock(mutex_);
    slots_.push_back(std::move(slot));
  }
  changed_.notify_all();
}

size_t EmbedWork::n_inside() const {
  const std::lock_guard lock(mutex_);
  return slots_.size();
}

EmbedBatch EmbedWork::take() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Slot> slot = slots_.front();
  changed_.wait(lock, [&] { return slot->is_done || is_cancelled_; });
  slots_.pop_front();
  if (!slot->is_done) throw EmbedFailure(kTryAgain, "the work was cancelled");
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

// Waits for a batch that no thread has taken, and returns the oldest one; null after cancel().
std::shared_ptr<EmbedWork::Slot> EmbedWork::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_cancelled_) return nullptr;
    for (const std::shared_ptr<Slot>& slot : slots_) {
      if (slot->is_taken) continue;
      slot->is_taken = true;
      return slot;
    }
    changed_.wait(lock);
  }
}

void EmbedWork::serve(ApiClient& client) {
  while (const std::shared_ptr<Slot> slot = next()) {
    std::exception_ptr error;
    try {
      ask(client, slot->batch);
    } catch (const Error& failure) {  // no server answers, or not with HTTP
      error = std::make_exception_ptr(EmbedFailure(kTryAgain, failure.what()));
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      slot->error = error;
      slot->is_done = true;
    }
    changed_.notify_all();
  }
}

// Waits for `time`. Returns false if cancel() was called.
bool EmbedWork::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return is_cancelled_; });
}

void EmbedWork::ask(ApiClient& client, EmbedBatch& batch) {
  const std::string body = embed_request(options_, batch.texts);
  http::Headers headers{{"X-Billow-Client", client_id_}};
  if (options_.is_bulk) headers.add("X-Billow-Priority", "bulk");
  const auto give_up = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const http::Response response = client.exchange("/v1/embeddings", body, headers);
    if (response.status < 400) {
      read_embed_answer(response.body, options_.origin, batch);
      batch.n_cut = count_of(response.headers.get("X-Billow-Truncated"));
      return;
    }
    const bool is_busy = response.status == 503 || response.status == 429;
    const auto time = wait_of(response);
    if (!is_busy || std::chrono::steady_clock::now() + time > give_up || !wait(time))
      refuse(response, options_, batch);
  }
}

}  // namespace billow::cli
