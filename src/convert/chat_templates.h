// Converts the chat templates of a model. Plain functions, thread-safe.
#pragma once

#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes tokenizer.chat_template, and each named template as tokenizer.chat_template.NAME. Uses the
// first source that exists: chat_template.jinja with additional_chat_templates/*.jinja,
// tokenizer_config.json, chat_template.json. Writes nothing if the model has no
// template. Throws Error (kInvalidInput) if a template is not a string.
void write_chat_templates(const Sources& sources, gguf::Writer& writer);

}  // namespace billow::convert
