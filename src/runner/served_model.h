// A loaded model as the routes of a runner use it: one that writes, or one that only embeds. Any
// thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "http/exchange.h"
#include "runner/memory_budget.h"
#include "tokenizer/tokenizer.h"

namespace billow::runner {

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  virtual const tokenizer::Tokenizer& tokenizer() const noexcept = 0;
  // Why it cannot go on; empty: it can.
  virtual std::string failure() const = 0;
  // Adds what /health tells of a model that is ready.
  virtual void add_state(Json& health) const = 0;
  // Answer a request, or throw Error before anything was sent.
  virtual void complete(http::Exchange& exchange) = 0;
  virtual void embed(http::Exchange& exchange) = 0;
  // The tokens of what is known and was of use last, and in which form its KV is.
  virtual std::vector<std::vector<int32_t>> latest_prefixes(size_t /*n_max*/) { return {}; }
  virtual std::string_view kv_format() const noexcept { return ""; }
  // From the next pass on; add_state() tells the version then.
  virtual void set_memory_budget(const MemoryBudget& budget) = 0;
};

}  // namespace billow::runner
