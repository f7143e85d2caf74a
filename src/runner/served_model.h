// A loaded model as the routes of a runner use it. It generates text, or it only embeds.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "engine/adapters.h"
#include "http/exchange.h"
#include "kv/prefix_index.h"
#include "runner/memory_budget.h"
#include "tokenizer/tokenizer.h"

namespace billow::runner {

enum class TextAction : uint8_t { kSave, kForget };

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  virtual const tokenizer::Tokenizer& tokenizer() const noexcept = 0;
  // Returns why the model has failed, or an empty text.
  virtual std::string failure() const = 0;
  // Adds the fields of a ready model to /health.
  virtual void add_state(Json& health) const = 0;
  // Responds to a request. Throws Error only before the response has begun.
  virtual void complete(http::Exchange& exchange) = 0;
  virtual void embed(http::Exchange& exchange) = 0;
  // Returns the tokens of the cached prefixes that were used last. kv_format() is the format of
  // their KV.
  virtual std::vector<kv::KnownText> latest_prefixes(size_t /*n_max*/) { return {}; }
  virtual std::string_view kv_format() const noexcept { return ""; }
  // See EngineLoop::do_with_text(). Returns nullopt if the model does not cache KV by texts.
  virtual std::optional<kv::TextKv> do_with_text(TextAction /*action*/,
                                                 std::vector<int32_t> /*tokens*/,
                                                 engine::AdapterFiles /*adapters*/,
                                                 uint64_t /*salt*/) {
    return std::nullopt;
  }
  // Sets the budget from the next pass on. Then add_state() shows its version.
  virtual void set_memory_budget(const MemoryBudget& budget) = 0;
};

}  // namespace billow::runner
