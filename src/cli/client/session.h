// A conversation with a model, without a terminal or a server: it takes the lines that are typed,
// keeps messages and settings, and says what is to be done next. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace billow::cli {

// What /api/show tells of a model that a session needs.
struct ModelFacts {
  std::vector<std::string> capabilities{};
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
};

class Session {
 public:
  Session(std::string model, SessionSettings settings, ModelFacts facts);

  // A line without its end. One that is `pasted` with more behind it is continued by the next.
  Step take(std::string_view line, bool pasted = false);
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
  enum class Block { kNone, kMessage, kSystem };  // what stands between """ and """

  Step continue_block(std::string_view line);
  Step begin_block(std::string_view line);
  Step command(const std::string& line);
  Step set(const std::vector<std::string>& words, const std::string& line);
  Step set_parameter(const std::vector<std::string>& words);
  Step set_system(const std::string& line);
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
  std::string unfinished_;      // of a message or system text of several lines
  bool has_unfinished_ = false;
  Block block_ = Block::kNone;
};

}  // namespace billow::cli
