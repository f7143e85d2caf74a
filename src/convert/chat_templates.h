// The chat templates of a model that is converted. Plain functions; any thread.
#pragma once

#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes tokenizer.chat_template, and templates with names as tokenizer.chat_template.NAME: of
// tokenizer_config.json, else of chat_template.jinja and additional_chat_templates/*.jinja, else of
// chat_template.json. Writes nothing where a model has none. Throws Error (kInvalidInput) for a
// template that is no text.
void write_chat_templates(const Sources& sources, gguf::Writer& writer);

}  // namespace billow::convert
