#include "constraint/matcher.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "constraint/bridge.h"

namespace billow::constraint {
namespace {

static_assert(sizeof(int32_t) == sizeof(uint32_t));

std::vector<uint32_t> ids_of(std::span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

void require_step(billow_status status, const BridgeText& message) {
  require_ok(status, "grammar: ", message);
}

}  // namespace

void Matcher::Free::operator()(billow_matcher* handle) const noexcept {
  billow_matcher_free(handle);
}

Matcher::Matcher(std::shared_ptr<const Vocabulary> vocabulary, const Grammar& grammar)
    : vocabulary_(std::move(vocabulary)) {
  const billow_grammar raw = bridge_grammar(grammar);
  billow_matcher* handle = nullptr;
  BridgeText message;
  const billow_status status =
      billow_matcher_create(vocabulary_->handle(), &raw, &kCompileLimits, &handle, &message.raw);
  require_ok(status, prefix_of(grammar.kind), message);
  handle_.reset(handle);
}

Matcher::Matcher(const Matcher& other) : vocabulary_(other.vocabulary_) {
  billow_matcher* handle = nullptr;
  BridgeText message;
  require_step(billow_matcher_clone(other.handle_.get(), &handle, &message.raw), message);
  handle_.reset(handle);
}

void Matcher::compute_mask(std::span<uint32_t> mask) {
  BILLOW_CHECK(mask.size() == vocabulary_->n_words());
  BridgeText message;
  require_step(billow_matcher_mask(handle_.get(), mask.data(), mask.size(), &message.raw), message);
}

void Matcher::consume(std::span<const int32_t> tokens) {
  const std::vector<uint32_t> ids = ids_of(tokens);
  BridgeText message;
  require_step(billow_matcher_consume(handle_.get(), ids.data(), ids.size(), &message.raw),
               message);
}

std::vector<int32_t> Matcher::forced() {
  std::vector<uint32_t> ids(16);
  size_t n = 0;
  do {
    ids.resize(std::max(ids.size(), n));
    BridgeText message;
    require_step(billow_matcher_forced(handle_.get(), ids.data(), ids.size(), &n, &message.raw),
                 message);
  } while (n > ids.size());
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)};
}

size_t Matcher::n_allowed(std::span<const int32_t> tokens) {
  const std::vector<uint32_t> ids = ids_of(tokens);
  size_t n = 0;
  BridgeText message;
  require_step(billow_matcher_validate(handle_.get(), ids.data(), ids.size(), &n, &message.raw),
               message);
  return n;
}

bool Matcher::accepts() {
  int accepts = 0;
  BridgeText message;
  require_step(billow_matcher_accepts(handle_.get(), &accepts, &message.raw), message);
  return accepts != 0;
}

bool Matcher::stopped() const noexcept { return billow_matcher_stopped(handle_.get()) != 0; }

void Matcher::reset() {
  BridgeText message;
  require_step(billow_matcher_reset(handle_.get(), &message.raw), message);
}

}  // namespace billow::constraint
