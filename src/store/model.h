// A stored model with all that a server needs: its texts, parameters, paths of weights, and
// capabilities. Plain data, loaded in one call; thread-safe.
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
  std::string thinking{};
  std::vector<std::string> images{};  // bytes of picture files
};

// The details that listings show.
struct Details {
  std::string parent_model;  // source model, or empty
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
  std::string params_json = "{}";  // JSON object of options
  std::vector<Message> messages;
  std::vector<std::string> licenses;
  // nullopt if the file is missing or is not a GGUF file.
  std::optional<GgufFacts> weights_facts;
  std::optional<GgufFacts> projector_facts;
};

// The max size of all texts of a model together: templates, licenses, messages.
inline constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

// Loads a model; returns nullopt if it does not exist. Throws Error if the manifest or a text is
// missing or broken. Unreadable weights only cause a log line, because the model can still be
// shown. If the model is replaced during the load, and its old files are removed, loads the new
// one.
std::optional<Model> load_model(const Store& store, const Name& name);

// Returns whether the weights and the projector, if the model has them, could be read. If not, they
// may become readable while the manifest stays the same.
bool has_all_facts(const Model& model);

// Returns the details from the config. Reads the weights only if the config lacks details.
Details details_of(const Store& store, const StoredModel& stored);

// Parses the messages of a messages layer. Throws Error that begins with `origin`.
std::vector<Message> parse_messages(std::string_view text, const std::string& origin);
std::string to_text(const std::vector<Message>& messages);

// If there is no template, prompts and conversations go to the model unchanged.
inline constexpr std::string_view kNoTemplate = "{{ .Prompt }}";
inline constexpr std::string_view kNoTemplateWarning =
    "the model has no chat template: prompts and messages are given to it as plain text; a "
    "TEMPLATE "
    "in its Modelfile sets one";

// The template that is used for a model, and its capabilities. api/model_traits.h finds them,
// because it understands templates.
struct PromptTraits {
  enum class Source : uint8_t {
    kNone,   // the model has no template; `text` is kNoTemplate
    kModel,  // the model's Go template
    kFile,   // the Jinja template of the GGUF file
  };
  Source source = Source::kNone;
  std::string text{kNoTemplate};
  bool tools = false;
  bool insert = false;
  bool thinking = false;
};

// Returns whether a text-generation model has no template for conversations.
bool lacks_template(const Model& model, const PromptTraits& traits);

// Returns "completion", "tools" and so on, each once, in Ollama's order: capabilities of the
// config, of a Jinja template, of the files, of a Go template.
std::vector<std::string> capabilities(const Model& model, const PromptTraits& traits);

}  // namespace billow::store
