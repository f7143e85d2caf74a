#include "cli/client/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "api/json_reader.h"
#include "base/error.h"
#include "base/go_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/client/prompt_files.h"
#include "cli/client/session_help.h"
#include "cli/client/show_text.h"
#include "http/message.h"
#include "scheduler/keep_alive.h"
#include "store/name.h"
#include "store/parameters.h"
#include "store/show.h"

namespace billow::cli {
namespace {

constexpr std::string_view kPromptAlone = "{{ .Prompt }}";
constexpr std::string_view kBlock = "\"\"\"";
constexpr std::array<std::string_view, 6> kShown = {"info",       "license", "modelfile",
                                                    "parameters", "system",  "template"};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Returns the text after the first `n` words of `line`.
std::string after_words(const std::string& line, size_t n) {
  size_t at = line.find_first_not_of(" \t");
  for (; n > 0 && at != std::string::npos; --n) {
    at = line.find_first_of(" \t", at);
    if (at != std::string::npos) at = line.find_first_not_of(" \t", at);
  }
  return at == std::string::npos ? "" : line.substr(at);
}

std::string between_quotes(std::string_view text) {
  return std::string(kBlock) + std::string(text) + std::string(kBlock);
}

Step reply(std::string out) { return {.out = std::move(out) + "\n"}; }
Step help_on(std::string_view topic) { return {.err = std::string(session_help(topic))}; }

std::string fault_of_parameter(const std::string& what) {
  return "Couldn't set parameter: " + go_quoted(what);
}

}  // namespace

bool ModelFacts::can(std::string_view capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

ModelFacts model_facts(const Json& show_reply) {
  ModelFacts facts{.capabilities = texts_field(show_reply, "capabilities")};
  const std::string shown = text_field(show_reply, "template");
  const std::string_view source = trimmed(shown);
  // For a model without a template, some servers return a template that only contains the prompt.
  const bool has_none = source.empty() || source == kPromptAlone;
  const std::string modelfile = "\n" + text_field(show_reply, "modelfile");
  const bool has_renderer = modelfile.find("\nRENDERER ") != std::string::npos;
  facts.lacks_chat_template = facts.can("completion") && has_none && !has_renderer;
  const Json messages = show_reply.contains("messages") ? show_reply["messages"] : Json();
  for (const Json& message : messages.is_array() ? messages : Json::array())
    facts.messages.push_back({.role = text_field(message, "role"),
                              .content = text_field(message, "content"),
                              .thinking = text_field(message, "thinking"),
                              .images = texts_field(message, "images")});
  return facts;
}

bool is_think_value(std::string_view text) {
  constexpr std::array<std::string_view, 6> kValues = {"true",   "false", "low",
                                                       "medium", "high",  "max"};
  return std::ranges::find(kValues, text) != kValues.end();
}

Json think_json(const std::string& think, const ModelFacts& facts) {
  if (think.empty()) return facts.can("thinking") ? Json(true) : Json();
  if (think == "true" || think == "false") return think == "true";
  return think;
}

Json format_json(const std::string& format) {
  if (format.empty()) return nullptr;
  if (format == "json") return format;
  std::optional<Json> schema = api::read_inner_json(format);
  if (!schema) {
    throw Error(ErrorCode::kInvalidInput,
                "--format: expected json or a JSON schema, not: " + format);
  }
  return *std::move(schema);
}

Json keep_alive_json(const std::string& text) {
  Json number = Json::parse(text, nullptr, false);
  if (number.is_number()) return number;
  (void)scheduler::parse_duration(text);
  return text;
}

std::string think_warning(const std::string& model, const std::string& think,
                          const ModelFacts& facts) {
  if (think.empty() || think == "false" || facts.can("thinking")) return "";
  return fmt::format("warning: model \"{}\" does not support thinking output\n", model);
}

std::string template_warning(const std::string& model, const ModelFacts& facts) {
  if (!facts.lacks_chat_template) return "";
  return fmt::format(
      "warning: model \"{}\" has no chat template: it continues texts, and may answer messages "
      "with nonsense\n",
      model);
}

Session::Session(std::string model, SessionSettings settings, ModelFacts facts)
    : model_(std::move(model)), settings_(std::move(settings)), facts_(std::move(facts)) {}

void Session::load(std::string model, ModelFacts facts) {
  model_ = std::move(model);
  facts_ = std::move(facts);
  messages_.clear();
  system_.clear();
  options_ = "{}";
}

void Session::drop_last() {
  if (!messages_.empty()) messages_.pop_back();
}

bool Session::drop_unfinished() {
  unfinished_.clear();
  return std::exchange(block_, Block::kNone) != Block::kNone;
}

Step Session::take(std::string_view line, TypedEnds typed) {
  if (block_ != Block::kNone) return continue_block(line, typed);
  if (line.starts_with(kBlock) && typed.head >= kBlock.size()) {
    return begin_block(Block::kMessage, line.substr(kBlock.size()), typed);
  }
  if (!line.starts_with('/') || typed.head == 0) return ask(std::string(line));
  Step step = command(std::string(line), typed);
  if (step.kind != Step::Kind::kMore && step.history.empty()) step.history = line;
  return step;
}

// `line` is what follows the three quotes.
Step Session::begin_block(Block block, std::string_view line, TypedEnds typed) {
  block_ = block;
  return continue_block(line, typed);
}

Step Session::continue_block(std::string_view line, TypedEnds typed) {
  if (!line.ends_with(kBlock) || typed.tail < kBlock.size()) {
    unfinished_ += std::string(line) + "\n";
    return {.kind = Step::Kind::kMore};
  }
  unfinished_ += line.substr(0, line.size() - kBlock.size());
  std::string text = std::exchange(unfinished_, "");
  if (std::exchange(block_, Block::kNone) == Block::kMessage) return ask(std::move(text));
  return use_system(std::move(text));
}

Step Session::ask(std::string text) {
  if (trimmed(text).empty()) return {};
  std::string entry =
      text.starts_with('/') || text.starts_with(kBlock) ? between_quotes(text) : text;
  return {.kind = Step::Kind::kAsk, .argument = std::move(text), .history = std::move(entry)};
}

Step Session::command(const std::string& line, TypedEnds typed) {
  const std::vector<std::string> words = words_of(line);
  const std::string& name = words[0];
  const std::string argument = words.size() > 1 ? words[1] : "";
  if (name == "/bye" || name == "/exit") return {.kind = Step::Kind::kEnd};
  if (name == "/?" || name == "/help") return help_on(argument);
  if (name == "/set") return set(words, line, typed);
  if (name == "/show") return show(words);
  if (name == "/list") return {.kind = Step::Kind::kList};
  if (name == "/load") {
    if (words.size() != 2) return reply("Usage:\n  /load <modelname>");
    return {.kind = Step::Kind::kLoad,
            .argument = argument,
            .out = "Loading model '" + argument + "'\n"};
  }
  if (name == "/save") {
    if (words.size() != 2) return reply("Usage:\n  /save <modelname>");
    if (!store::parse_name(argument)) {
      return reply("error: The model name '" + argument + "' is invalid");
    }
    return {.kind = Step::Kind::kSave, .argument = argument};
  }
  if (name == "/clear") {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
    return reply("Cleared session context");
  }
  if (facts_.takes_files()) {
    for (const NamedFile& file : files_named_in(line)) {
      if (!line.starts_with(file.written)) continue;
      Step step = ask(line);
      step.history = line;  // also without quotes it is a message
      return step;
    }
  }
  return reply("Unknown command '" + name + "'. Type /? for help");
}

Step Session::show(const std::vector<std::string>& words) const {
  if (words.size() < 2) return help_on("show");
  if (std::ranges::find(kShown, words[1]) == kShown.end()) {
    return reply("Unknown command '/show " + words[1] + "'. Type /? for help");
  }
  return {.kind = Step::Kind::kShow, .argument = words[1]};
}

Step Session::set(const std::vector<std::string>& words, const std::string& line, TypedEnds typed) {
  if (words.size() < 2) return help_on("set");
  const std::string& what = words[1];
  const auto set_flag = [&what](bool& flag, bool value) {
    flag = value;
    return reply("Set '" + what + "' mode.");
  };
  if (what == "history") return {.kind = Step::Kind::kHistoryOn};
  if (what == "nohistory") return {.kind = Step::Kind::kHistoryOff};
  if (what == "wordwrap") return set_flag(settings_.wraps_words, true);
  if (what == "nowordwrap") return set_flag(settings_.wraps_words, false);
  if (what == "verbose") return set_flag(settings_.verbose, true);
  if (what == "quiet") return set_flag(settings_.verbose, false);
  if (what == "think" || what == "nothink") return set_think(words);
  if (what == "format") return set_format(words);
  if (what == "noformat") {
    settings_.format.clear();
    return reply("Disabled format.");
  }
  if (what == "parameter") return set_parameter(words);
  if (what == "system") {
    const std::string text = after_words(line, 2);
    const size_t n_before = line.size() - text.size();
    return set_system(text, typed.head >= n_before + kBlock.size(), typed);
  }
  return reply("Unknown command '/set " + what + "'. Type /? for help");
}

Step Session::set_think(const std::vector<std::string>& words) {
  if (words[1] == "nothink") {
    settings_.think = "false";
    return reply("Set 'nothink' mode.");
  }
  const std::string level = words.size() > 2 ? words[2] : "true";
  if (!is_think_value(level)) {
    return reply(
        fmt::format("Invalid think level '{}'. Use true, false, low, medium, high or max", level));
  }
  settings_.think = level;
  Step step =
      reply(words.size() > 2 ? "Set 'think' mode to '" + level + "'." : "Set 'think' mode.");
  step.err = think_warning(model_, level, facts_);
  return step;
}

Step Session::set_format(const std::vector<std::string>& words) {
  if (words.size() < 3 || words[2] != "json") {
    return reply("Invalid or missing format. For 'json' mode use '/set format json'");
  }
  settings_.format = "json";
  return reply("Set format to 'json' mode.");
}

Step Session::set_parameter(const std::vector<std::string>& words) {
  if (words.size() < 4) return help_on("parameter");
  std::vector<std::pair<std::string, std::string>> values;
  std::string listed;
  for (const std::string& value : std::span(words).subspan(3)) {
    values.emplace_back(words[2], value);
    listed += (listed.empty() ? "" : ", ") + value;
  }
  try {
    Json options = Json::parse(options_);
    options.update(store::parameters_from_text(values));
    options_ = options.dump();
  } catch (const Error& error) {
    return reply(fault_of_parameter(error.what()));
  }
  return reply("Set parameter '" + words[2] + "' to '" + listed + "'");
}

// `has_typed_start`: the first characters of `text` were typed.
Step Session::set_system(const std::string& text, bool has_typed_start, TypedEnds typed) {
  if (text.empty()) return help_on("set");
  if (!text.starts_with(kBlock) || !has_typed_start) return use_system(text);
  return begin_block(Block::kSystem, std::string_view(text).substr(kBlock.size()), typed);
}

Step Session::use_system(std::string text) {
  system_ = std::move(text);
  if (!messages_.empty() && messages_.back().role == "system") messages_.pop_back();
  messages_.push_back({.role = "system", .content = system_});
  Step step = reply("Set system message.");
  const bool is_one_text = system_.find('\n') == std::string::npos && !system_.starts_with(kBlock);
  step.history = "/set system " + (is_one_text ? system_ : between_quotes(system_));
  return step;
}

namespace {

Json messages_json(const std::vector<ChatMessage>& messages) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    Json entry = {{"role", message.role}, {"content", message.content}};
    if (!message.thinking.empty()) entry["thinking"] = message.thinking;
    if (!message.images.empty()) entry["images"] = message.images;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Json Session::chat_request() const {
  Json request = {{"model", model_}, {"messages", messages_json(messages_)}};
  request["options"] = Json::parse(options_);
  if (Json format = format_json(settings_.format); !format.is_null()) request["format"] = format;
  // The server rejects `think` for a model that cannot think. The user has already been warned.
  if (facts_.can("thinking")) request["think"] = think_json(settings_.think, facts_);
  if (!settings_.keep_alive.empty()) {
    request["keep_alive"] = keep_alive_json(settings_.keep_alive);
  }
  return request;
}

Json Session::show_request() const {
  Json request = {{"model", model_}};
  if (!system_.empty()) request["system"] = system_;
  if (options_ != "{}") request["options"] = Json::parse(options_);
  return request;
}

Json Session::save_request(const std::string& name) const {
  Json request = {{"model", name}, {"from", model_}};
  if (!system_.empty()) request["system"] = system_;
  if (options_ != "{}") request["parameters"] = Json::parse(options_);
  std::vector<ChatMessage> talk = facts_.messages;
  for (const ChatMessage& message : messages_) {
    if (message.role != "system") talk.push_back(message);
  }
  // Without messages in the request, the new model has those of this model, too.
  if (talk.size() > facts_.messages.size()) request["messages"] = messages_json(talk);
  return request;
}

void Session::saved() {
  const auto is_own = [](const ChatMessage& message) { return message.role != "system"; };
  std::ranges::copy_if(messages_, std::back_inserter(facts_.messages), is_own);
  std::erase_if(messages_, is_own);
}

std::string Session::parameters_text(const Json& show_reply) const {
  std::string text = "Model defined parameters:\n";
  std::istringstream lines(text_field(show_reply, "parameters"));
  bool has_some = false;
  for (std::string line; std::getline(lines, line); has_some = true) text += "  " + line + "\n";
  if (!has_some) text += "  No additional parameters were specified for this model.\n";
  const Json options = Json::parse(options_);
  if (options.empty()) return text + "\n";
  text += "\nUser defined parameters:\n";
  for (const auto& [name, value] : options.items()) {
    for (const std::string& shown : store::value_texts(value)) {
      text += fmt::format("  {:<30} {}\n", name, shown);
    }
  }
  return text + "\n";
}

std::string Session::field_text(const std::string& field, const Json& show_reply) const {
  std::string text = text_field(show_reply, field.c_str());
  if (field == "system" && !system_.empty()) text = system_;
  if (!text.empty()) return text + "\n";
  const std::string what = field == "system"     ? "system message"
                           : field == "template" ? "prompt template"
                                                 : field;
  return "No " + what + " was specified for this model.\n";
}

}  // namespace billow::cli
