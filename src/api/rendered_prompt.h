// A sink for requests that want only the prompt: render_only. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "api/answer.h"
#include "api/call.h"

namespace billow::api {

class RenderedPrompt : public Sink {
 public:
  // REQUIRES: the call outlives the sink. The sink sets the call's model.
  explicit RenderedPrompt(Call& call) : call_(call) {}

  void found(const std::string& model) override { call_.set_model(model); }
  void sized(const Sizing& sizing) override { sizing_ = sizing; }
  bool delta(const Delta&) override { return false; }
  bool end(const Ending&) override { return false; }
  bool rendered(const std::string& prompt, size_t) override {
    text_ = prompt;
    return true;
  }

  const std::string& text() const noexcept { return text_; }
  const Sizing& sizing() const noexcept { return sizing_; }
  size_t n_tokens() const noexcept { return sizing_.n_prompt_full; }  // before truncation

 private:
  Call& call_;
  std::string text_;
  Sizing sizing_;
};

}  // namespace billow::api
