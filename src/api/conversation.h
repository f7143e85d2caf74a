// The messages that a model is given, and their text: what the model brings along put before what
// the request says, then rendered by whichever template the model has. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/catalog.h"
#include "api/generation.h"
#include "api/prompt_images.h"
#include "base/json.h"

namespace billow::api {

struct Conversation {
  std::vector<Message> messages;
  Json tools;             // declarations: an array, or null
  Think think;            // as it holds for the model: unset where it cannot think
  PromptImages images{};  // of the messages, in whose texts marks stand for them
};

// The model's system text and messages, then the request's. Where it can think and nothing was
// asked, it does. Without tools where none may be called. Throws http::StatusError (400) for an
// image that is no picture.
Conversation conversation_of(const ServedModel& model, const GenerationRequest& request);

// The template that the request brings, if any. Throws http::StatusError (500) for a bad one.
std::optional<prompt::GoTemplate> own_template(const GenerationRequest& request);

// The Go template to use where the request brings none; null: the model's Jinja template. A model
// without any template gets store::kNoTemplate: prompts and messages as they are.
const prompt::GoTemplate* go_template_of(const ServedModel& model);

// The text of those messages whose indices are in `kept`, which is ascending. `go` null: the
// model's Jinja template. Throws Error: kTooLarge beyond what a template may take or render,
// kInvalidInput where the template refuses the messages.
std::string render_conversation(const ServedModel& model, const Conversation& conversation,
                                std::span<const size_t> kept, const prompt::GoTemplate* go);

// The prompt around the gap before the suffix.
std::string render_fill(const GenerationRequest& request, const prompt::GoTemplate* go);

}  // namespace billow::api
