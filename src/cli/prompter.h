// Prompts as tokens: as they are, or through the model's chat template. Any thread.
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
  // `raw`: without the template. `think`: what the template is told as enable_thinking. The engine
  // must outlive it.
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

// An array of messages, with the system message where there is one.
Json conversation_start(const std::string& system);

}  // namespace billow::cli
