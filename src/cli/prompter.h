// Turns prompts into tokens, with or without the model's chat template. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engine/engine.h"
#include "prompt/chat_template.h"

namespace billow::cli {

class Prompter {
 public:
  // `raw` ignores the template. `think` is the template's enable_thinking. `engine` must outlive
  // the Prompter.
  Prompter(const engine::Engine& engine, bool raw, bool think);
  bool has_template() const noexcept { return template_ != nullptr; }

  std::vector<int32_t> plain(const std::string& text) const;
  // REQUIRES: has_template().
  std::vector<int32_t> chat(const Json& messages) const;

 private:
  std::string text_of(int32_t token) const;

  const engine::Engine& engine_;
  bool think_;
  std::unique_ptr<prompt::ChatTemplate> template_;
};

// Returns an array of messages: the system message, or none if `system` is empty.
Json conversation_start(const std::string& system);

}  // namespace billow::cli
