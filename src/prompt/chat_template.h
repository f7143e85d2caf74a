// The Jinja chat template of a model. It turns a conversation into the text format of the model's
// training, as Jinja2 does with the settings of the transformers library. Templates and
// conversations are untrusted: sizes are checked before a rendering; time and memory are limited
// during it. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/json_fwd.h"

struct billow_template;

namespace billow::prompt {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxInputBytes = size_t{8} << 20;   // all strings and keys together
inline constexpr size_t kMaxInputValues = size_t{1} << 18;  // elements of objects and arrays
inline constexpr size_t kMaxInputDepth = 100;               // levels of nested objects and arrays

// Limits of one compilation or rendering. A long template executes about 90 instructions per
// message.
struct TemplateLimits {
  uint64_t n_instructions = 1'000'000;
  uint64_t memory_bytes = uint64_t{512} << 20;
  uint64_t time_ms = 20'000;
};

class ChatTemplate {
 public:
  // Compiles `source`. Throws Error "chat template line N: ..." (kInvalidInput; kTooLarge beyond a
  // limit).
  explicit ChatTemplate(const std::string& source, const TemplateLimits& limits = {});

  // Renders the template. The members of the object `input` are the template's variables: messages,
  // tools, add_generation_prompt, bos_token, eos_token, documents and others that the template
  // uses. The member "strftime_now", a text like "2026-07-26T12:30:00", sets the clock of the
  // function strftime_now. Without this member the function returns local time. Throws Error like
  // the constructor. An error that the template raises (raise_exception) is kInvalidInput.
  std::string render(const Json& input) const;

 private:
  TemplateLimits limits_;
  std::shared_ptr<const billow_template> handle_;
};

}  // namespace billow::prompt
