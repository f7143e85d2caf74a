// A conversation with a model, without a terminal or a server: it takes the lines that are typed,
// keeps messages and settings, and says what is to be done next. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "cli/client/typed_text.h"

namespace billow::cli {

// What /api/show tells of a model that a session needs.
struct ModelFacts {
  std::vector<std::string> capabilities{};
  // A text generator to which nothing says how conversations are written: a base model, most often.
  bool lacks_chat_template = false;
  bool can(std::string_view capability) const;
  bool takes_files() const { return can("vision") || can("audio"); }
};
ModelFacts model_facts(const Json& show_reply);

// What `run` can be told, and what /set changes of it.
struct SessionSettings {
  std::string format{};      // "", "json", or a JSON schema
  std::string think{};       // "": as the model does; true, false, low, medium, high or max
  std::string keep_alive{};  // "": as the server does
  bool hides_thinking = false;
  bool verbose = false;
  bool wraps_words = true;
};

bool is_think_value(std::string_view text);
// As requests have them: null where it is not set, a bool or a text; "json" or the schema. Throws
// Error (kInvalidInput) for a format that is neither.
Json think_json(const std::string& think, const ModelFacts& facts);
Json format_json(const std::string& format);
// A duration's text, or a number of seconds. Throws Error (kInvalidInput) for what is neither.
Json keep_alive_json(const std::string& text);
// "warning: ..." where the model cannot do what is asked of it, else "".
std::string think_warning(const std::string& model, const std::string& think,
                          const ModelFacts& facts);
// The same for a model without a chat template.
std::string template_warning(const std::string& model, const ModelFacts& facts);

struct ChatMessage {
  std::string role;
  std::string content;
  std::string thinking{};
  std::vector<std::string> images{};  // base64
};

struct Step {
  enum class Kind {
    kPrompt,  // nothing but to read the next line
    kMore,    // the same, which continues this one
    kAsk,     // send `argument` to the model
    kShow,    // `argument`: info, license, modelfile, parameters, system or template
    kLoad,    // go on with the model `argument`
    kSave,    // make a model `argument` of the session
    kList,    // the models
    kHistoryOn,
    kHistoryOff,
    kEnd,
  };
  Kind kind = Kind::kPrompt;
  std::string argument{};
  std::string out{};  // to print before that
  std::string err{};  // the same, on standard error
  // What the user may want to recall: the whole message or command, in the form that, typed, has
  // the same effect. "": nothing, or a text that is not finished.
  std::string history{};
};

class Session {
 public:
  Session(std::string model, SessionSettings settings, ModelFacts facts);

  // A line without its end, or several. What was not typed is never a command, nor one of the three
  // quotes that begin and end a message of several lines.
  Step take(std::string_view line, TypedEnds typed = {});
  // Drops a message that has not been finished; whether there was one.
  bool drop_unfinished();

  // Goes on with another model and a fresh conversation.
  void load(std::string model, ModelFacts facts);
  void add(ChatMessage message) { messages_.push_back(std::move(message)); }
  // Takes back the last message: the model was not able to answer it.
  void drop_last();

  Json chat_request() const;
  Json show_request() const;
  // Of /api/create. Throws nothing for a bad name: the server says so.
  Json save_request(const std::string& name) const;
  // "/show parameters": the model's, from `show_reply`, and those set here.
  std::string parameters_text(const Json& show_reply) const;
  // What else /show prints of a field, or what it says where there is none.
  std::string field_text(const std::string& field, const Json& show_reply) const;

  const std::string& model() const noexcept { return model_; }
  const SessionSettings& settings() const noexcept { return settings_; }
  const ModelFacts& facts() const noexcept { return facts_; }
  const std::vector<ChatMessage>& messages() const noexcept { return messages_; }

 private:
  enum class Block { kNone, kMessage, kSystem };  // what the text between """ and """ is

  Step begin_block(Block block, std::string_view line, TypedEnds typed);
  Step continue_block(std::string_view line, TypedEnds typed);
  Step command(const std::string& line, TypedEnds typed);
  Step set(const std::vector<std::string>& words, const std::string& line, TypedEnds typed);
  Step set_parameter(const std::vector<std::string>& words);
  Step set_system(const std::string& text, bool has_typed_start, TypedEnds typed);
  Step set_format(const std::vector<std::string>& words);
  Step set_think(const std::vector<std::string>& words);
  Step show(const std::vector<std::string>& words) const;
  Step use_system(std::string text);
  Step ask(std::string text);

  std::string model_;
  SessionSettings settings_;
  ModelFacts facts_;
  std::vector<ChatMessage> messages_;
  std::string system_;
  std::string options_ = "{}";  // a JSON object
  Block block_ = Block::kNone;
  std::string unfinished_;  // what a block has so far
};

}  // namespace billow::cli
