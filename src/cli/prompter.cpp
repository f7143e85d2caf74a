#include "cli/prompter.h"

#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"

namespace billow::cli {

Prompter::Prompter(const engine::Engine& engine, bool raw, bool think)
    : engine_(engine), think_(think) {
  if (raw) return;
  const auto source = engine.file().get_string("tokenizer.chat_template");
  if (source) template_ = std::make_unique<prompt::ChatTemplate>(std::string(*source));
  if (!source) log::info("the model has no chat template; the prompt is used as it is");
}

std::vector<int32_t> Prompter::plain(const std::string& text) const {
  return engine_.tokenizer().encode(text);
}

std::vector<int32_t> Prompter::chat(const Json& messages) const {
  const tokenizer::Tokenizer& tokens = engine_.tokenizer();
  const std::string bos = text_of(tokens.bos());
  const std::string text = template_->render({{"messages", messages},
                                              {"add_generation_prompt", true},
                                              {"enable_thinking", think_},
                                              {"bos_token", bos},
                                              {"eos_token", text_of(tokens.eos())}});
  // Many templates write BOS themselves. A second BOS makes answers worse.
  const bool has_bos = !bos.empty() && text.starts_with(bos);
  return tokens.encode(text, {.add_special = !has_bos, .parse_special = true});
}

std::string Prompter::text_of(int32_t token) const {
  return engine_.tokenizer().has(token) ? utf8::sanitized(engine_.tokenizer().text(token))
                                        : std::string();
}

Json conversation_start(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

}  // namespace billow::cli
