// The Jinja chat template of a model: turns a conversation into the text that the model was trained
// on, as Jinja2 does with the settings of the transformers library. Templates and conversations are
// untrusted: their sizes are bounded before, time and memory during a rendering. Immutable; any
// thread may render.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/json_fwd.h"

struct billow_template;

namespace billow::prompt {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxInputBytes = size_t{8} << 20;   // of all strings and keys together
inline constexpr size_t kMaxInputValues = size_t{1} << 18;  // objects, arrays and what they hold
inline constexpr size_t kMaxInputDepth = 100;               // of objects and arrays in each other

// What a compilation or a rendering may use. A long template executes about 90 instructions per
// message.
struct TemplateLimits {
  uint64_t n_instructions = 1'000'000;
  uint64_t memory_bytes = uint64_t{512} << 20;
  uint64_t time_ms = 20'000;
};

class ChatTemplate {
 public:
  // Compiles `source`. Throws Error "chat template line N: ..." (kInvalidInput, or kTooLarge beyond
  // a limit).
  explicit ChatTemplate(const std::string& source, const TemplateLimits& limits = {});

  // Renders with the members of the object `input` as the template's variables: messages, tools,
  // add_generation_prompt, bos_token, eos_token, documents and whatever else the template knows.
  // The member "strftime_now", a text like "2026-07-26T12:30:00", sets the clock of the function of
  // that name, which else tells local time. Throws Error as above; what the template raises itself
  // (raise_exception) is kInvalidInput.
  std::string render(const Json& input) const;

 private:
  TemplateLimits limits_;
  std::shared_ptr<const billow_template> handle_;
};

}  // namespace billow::prompt
