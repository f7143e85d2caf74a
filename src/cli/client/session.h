// The state of a conversation with a model, without a terminal or a server. Takes the entered
// lines, stores messages and settings, and returns what to do next. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "cli/client/typed_text.h"

namespace billow::cli {

struct ChatMessage {
  std::string role;
  std::string content;
  std::string thinking{};
  std::vector<std::string> images{};  // base64
};

// Facts about a model that a session needs, from /api/show.
struct ModelFacts {
  std::vector<std::string> capabilities{};
  // The model generates text, but has no chat template. Usually it is a base model.
  bool lacks_chat_template = false;
  std::vector<ChatMessage> messages{};  // the server puts them before those of a conversation
  bool can(std::string_view capability) const;
  bool takes_files() const { return can("vision") || can("audio"); }
};
ModelFacts model_facts(const Json& show_reply);

// Options of `run`; /set changes some of them.
struct SessionSettings {
  std::string format{};      // "", "json", or a JSON schema
  std::string think{};       // "": the model's default; true, false, low, medium, high or max
  std::string keep_alive{};  // "": the server's default
  bool hides_thinking = false;
  bool verbose = false;
  bool wraps_words = true;
};

bool is_think_value(std::string_view text);
// Return the values for requests; null if not set. Thinking is a bool or a text. The format is
// "json" or the schema; throws Error (kInvalidInput) for other formats.
Json think_json(const std::string& think, const ModelFacts& facts);
Json format_json(const std::string& format);
// Returns the text of a duration, or a number of seconds. Throws Error (kInvalidInput) for other
// texts.
Json keep_alive_json(const std::string& text);
// Returns "warning: ..." if `think` asks for thinking and the model cannot think; else "".
std::string think_warning(const std::string& model, const std::string& think,
                          const ModelFacts& facts);
// Returns "warning: ..." if the model has no chat template; else "".
std::string template_warning(const std::string& model, const ModelFacts& facts);

struct Step {
  enum class Kind {
    kPrompt,  // only read the next line
    kMore,    // read the next line, which continues this one
    kAsk,     // send `argument` to the model
    kShow,    // `argument`: info, license, modelfile, parameters, system or template
    kLoad,    // continue with the model `argument`
    kSave,    // save the session as the model `argument`
    kList,    // list the models
    kHistoryOn,
    kHistoryOff,
    kEnd,
  };
  Kind kind = Kind::kPrompt;
  std::string argument{};
  std::string out{};  // print first, on standard output
  std::string err{};  // print first, on standard error
  // The history entry: the whole message or command. Typing it has the same effect. "": no entry,
  // e.g. for an unfinished text.
  std::string history{};
};

class Session {
 public:
  Session(std::string model, SessionSettings settings, ModelFacts facts);

  // Takes one or several lines, without the last line end. Text that was not typed is never a
  // command. It also cannot begin or end a multi-line message with three quotes.
  Step take(std::string_view line, TypedEnds typed = {});
  // Drops an unfinished message. Returns whether there was one.
  bool drop_unfinished();

  // Continues with another model and an empty conversation.
  void load(std::string model, ModelFacts facts);
  void add(ChatMessage message) { messages_.push_back(std::move(message)); }
  // Removes the last message, because the model was not able to answer it.
  void drop_last();

  Json chat_request() const;
  Json show_request() const;
  // Returns a request for /api/create. The new model has the messages of this model, then those of
  // the session. Does not check the name; the server does.
  Json save_request(const std::string& name) const;
  // The conversation was saved as this session's own model. From now on, the server puts it before
  // each request.
  void saved();
  // Returns the text of "/show parameters": the model's parameters from `show_reply`, and the ones
  // set in this session.
  std::string parameters_text(const Json& show_reply) const;
  // Returns the text of /show for other fields, or a line that the field is missing.
  std::string field_text(const std::string& field, const Json& show_reply) const;

  const std::string& model() const noexcept { return model_; }
  const SessionSettings& settings() const noexcept { return settings_; }
  const ModelFacts& facts() const noexcept { return facts_; }
  const std::vector<ChatMessage>& messages() const noexcept { return messages_; }

 private:
  enum class Block { kNone, kMessage, kSystem };  // what the text between """ and """ becomes

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
  std::string unfinished_;  // text of the block so far
};

}  // namespace billow::cli
