// A stored model as a server needs it: its texts and parameters, where its weights lie, and what it
// can do. Plain data, read at once; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/gguf_facts.h"
#include "store/store.h"

namespace billow::store {

struct Message {
  std::string role;
  std::string content;
};

// As listings show it.
struct Details {
  std::string parent_model;  // the model that it was made from, or empty
  std::string format;
  std::string family;
  std::vector<std::string> families;
  std::string parameter_size;
  std::string quantization_level;
  uint64_t context_length = 0;
  uint64_t embedding_length = 0;
};

struct Model {
  StoredModel stored;
  Config config;
  Details details;
  // Paths of blobs.
  std::string weights;  // empty for a remote model
  std::string draft;
  std::vector<std::string> adapters;
  std::vector<std::string> projectors;
  std::string template_text;  // a Go template, or empty
  std::string system;
  std::string params_json = "{}";  // an object of options
  std::vector<Message> messages;
  std::vector<std::string> licenses;
  // Absent where there is no such file, or one that is no GGUF file.
  std::optional<GgufFacts> weights_facts;
  std::optional<GgufFacts> projector_facts;
};

// Of all texts of a model together: templates, licenses, messages.
inline constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

// nullopt when there is no such model. Throws Error when its manifest or one of its texts is
// missing or broken. Weights that cannot be read are a line in the log: there is still a model to
// show.
std::optional<Model> load_model(const Store& store, const Name& name);

// By the config alone, and the weights where it says too little.
Details details_of(const Store& store, const StoredModel& stored);

// The messages of a messages layer. Throws Error that begins with `origin`.
std::vector<Message> parse_messages(std::string_view text, const std::string& origin);
std::string to_text(const std::vector<Message>& messages);

// Without any template a prompt is given to the model as it is, and so is what a conversation says.
inline constexpr std::string_view kNoTemplate = "{{ .Prompt }}";
inline constexpr std::string_view kNoTemplateWarning =
    "the model has no chat template: prompts and messages are given to it as plain text; a "
    "TEMPLATE "
    "in its Modelfile sets one";

// The template that is used of those that a model has, and what it can do. Found by those who
// understand templates (api/model_traits.h).
struct PromptTraits {
  enum class Source : uint8_t {
    kNone,   // the model has no template: `text` is kNoTemplate
    kModel,  // its own Go template
    kFile,   // the Jinja template of its GGUF file
  };
  Source source = Source::kNone;
  std::string text{kNoTemplate};
  bool tools = false;
  bool insert = false;
  bool thinking = false;
};

// Whether nothing says how a conversation is to be put to a model that writes.
bool lacks_template(const Model& model, const PromptTraits& traits);

// "completion", "tools" ..., each once, in Ollama's order: those of the config, what a Jinja
// template can do, what the files can do, what a Go template can do.
std::vector<std::string> capabilities(const Model& model, const PromptTraits& traits);

}  // namespace billow::store
