// Builds the messages for a model and renders them with a template of the model or of the request.
// Pure functions; thread-safe.
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
  Json tools;             // declarations of tools: an array, or null
  Think think;            // effective setting for the model; unset if the model cannot think
  PromptImages images{};  // of the messages; their texts contain marks for images
};

// Returns the system text, then the model's messages, then those of the request. A system text of
// the request replaces the model's. A prompt that continues a context gets no messages of the
// model. If the request does not set thinking, a model that can think thinks. If no tool may be
// called, `tools` is null. Throws http::StatusError (400) for an image that is not a picture.
Conversation conversation_of(const ServedModel& model, const GenerationRequest& request);

// Returns the template in the request, if any. Throws http::StatusError (500) if parsing fails.
std::optional<prompt::GoTemplate> own_template(const GenerationRequest& request);

// Returns the Go template for requests without one; null means the model's Jinja template. A model
// without any template gets store::kNoTemplate, which writes prompts and messages as they are.
const prompt::GoTemplate* go_template_of(const ServedModel& model);

struct Rendering {
  std::string text;
  // The text ends inside of the last message's thinking, which the model continues.
  bool ends_in_thinking = false;
};

// Renders the messages whose indices are in `kept`, in ascending order. If `go` is null, renders
// with the model's Jinja template. A final message of the model is cut where the model continues
// it. If it is empty, or has only thinking that the template does not show, it is left out. Throws
// Error: kTooLarge if the input or the output exceeds a template's limits, kInvalidInput if the
// template refuses the messages. Throws http::StatusError (400) if a Jinja template does not show a
// final text of the model.
Rendering render_conversation(const ServedModel& model, const Conversation& conversation,
                              std::span<const size_t> kept, const prompt::GoTemplate* go);

// Renders a fill-in-the-middle prompt: the prompt, the gap, then the suffix.
std::string render_fill(const GenerationRequest& request, const prompt::GoTemplate* go);

}  // namespace billow::api
