#include "cli/client/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

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

constexpr std::string_view kBlock = "\"\"\"";
constexpr std::array<std::string_view, 6> kShown = {"info",       "license", "modelfile",
                                                    "parameters", "system",  "template"};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// What stands behind the first `n` words of `line`.
std::string behind_words(const std::string& line, size_t n) {
  size_t at = line.find_first_not_of(" \t");
  for (; n > 0 && at != std::string::npos; --n) {
    at = line.find_first_of(" \t", at);
    if (at != std::string::npos) at = line.find_first_not_of(" \t", at);
  }
  return at == std::string::npos ? "" : line.substr(at);
}

Step said(std::string out) { return {.out = std::move(out) + "\n"}; }
Step helped(std::string_view topic) { return {.err = std::string(session_help(topic))}; }

std::string fault_of_parameter(const std::string& what) {
  return "Couldn't set parameter: " + go_quoted(what);
}

}  // namespace

bool ModelFacts::can(std::string_view capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

ModelFacts model_facts(const Json& show_reply) {
  return {.capabilities = texts_field(show_reply, "capabilities")};
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
  Json schema = Json::parse(format, nullptr, false);
  if (schema.is_discarded()) {
    throw Error(ErrorCode::kInvalidInput,
                "--format: expected json or a JSON schema, not: " + format);
  }
  return schema;
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
  block_ = Block::kNone;
  return std::exchange(has_unfinished_, false);
}

Step Session::take(std::string_view line, bool pasted) {
  if (block_ != Block::kNone) return continue_block(line);
  if (line.starts_with(kBlock)) return begin_block(line.substr(kBlock.size()));
  if (pasted) {
    unfinished_ += std::string(line) + "\n";
    has_unfinished_ = true;
    return {.kind = Step::Kind::kMore};
  }
  if (!has_unfinished_ && line.starts_with('/')) return command(std::string(line));
  return ask(std::string(line));
}

Step Session::begin_block(std::string_view line) {
  has_unfinished_ = true;
  block_ = Block::kMessage;
  return continue_block(line);
}

Step Session::continue_block(std::string_view line) {
  if (!line.ends_with(kBlock)) {
    unfinished_ += std::string(line) + "\n";
    return {.kind = Step::Kind::kMore};
  }
  unfinished_ += line.substr(0, line.size() - kBlock.size());
  if (std::exchange(block_, Block::kNone) == Block::kMessage) return ask("");
  has_unfinished_ = false;
  return use_system(std::exchange(unfinished_, ""));
}

Step Session::ask(std::string text) {
  text = std::exchange(unfinished_, "") + text;
  has_unfinished_ = false;
  if (trimmed(text).empty()) return {};
  return {.kind = Step::Kind::kAsk, .argument = std::move(text)};
}

Step Session::command(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  const std::string& name = words[0];
  const std::string argument = words.size() > 1 ? words[1] : "";
  if (name == "/bye" || name == "/exit") return {.kind = Step::Kind::kEnd};
  if (name == "/?" || name == "/help") return helped(argument);
  if (name == "/set") return set(words, line);
  if (name == "/show") return show(words);
  if (name == "/list") return {.kind = Step::Kind::kList};
  if (name == "/load") {
    if (words.size() != 2) return said("Usage:\n  /load <modelname>");
    return {.kind = Step::Kind::kLoad,
            .argument = argument,
            .out = "Loading model '" + argument + "'\n"};
  }
  if (name == "/save") {
    if (words.size() != 2) return said("Usage:\n  /save <modelname>");
    if (!store::parse_name(argument)) {
      return said("error: The model name '" + argument + "' is invalid");
    }
    return {.kind = Step::Kind::kSave, .argument = argument};
  }
  if (name == "/clear") {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
    return said("Cleared session context");
  }
  if (facts_.takes_files()) {
    for (const NamedFile& file : files_named_in(line)) {
      if (line.starts_with(file.written)) return ask(line);
    }
  }
  return said("Unknown command '" + name + "'. Type /? for help");
}

Step Session::show(const std::vector<std::string>& words) const {
  if (words.size() < 2) return helped("show");
  if (std::ranges::find(kShown, words[1]) == kShown.end()) {
    return said("Unknown command '/show " + words[1] + "'. Type /? for help");
  }
  return {.kind = Step::Kind::kShow, .argument = words[1]};
}

Step Session::set(const std::vector<std::string>& words, const std::string& line) {
  if (words.size() < 2) return helped("set");
  const std::string& what = words[1];
  const auto set_flag = [&what](bool& flag, bool value) {
    flag = value;
    return said("Set '" + what + "' mode.");
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
    return said("Disabled format.");
  }
  if (what == "parameter") return set_parameter(words);
  if (what == "system") return set_system(behind_words(line, 2));
  return said("Unknown command '/set " + what + "'. Type /? for help");
}

Step Session::set_think(const std::vector<std::string>& words) {
  if (words[1] == "nothink") {
    settings_.think = "false";
    return said("Set 'nothink' mode.");
  }
  const std::string level = words.size() > 2 ? words[2] : "true";
  if (!is_think_value(level)) {
    return said(
        fmt::format("Invalid think level '{}'. Use true, false, low, medium, high or max", level));
  }
  settings_.think = level;
  Step step = said(words.size() > 2 ? "Set 'think' mode to '" + level + "'." : "Set 'think' mode.");
  step.err = think_warning(model_, level, facts_);
  return step;
}

Step Session::set_format(const std::vector<std::string>& words) {
  if (words.size() < 3 || words[2] != "json") {
    return said("Invalid or missing format. For 'json' mode use '/set format json'");
  }
  settings_.format = "json";
  return said("Set format to 'json' mode.");
}

Step Session::set_parameter(const std::vector<std::string>& words) {
  if (words.size() < 4) return helped("parameter");
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
    return said(fault_of_parameter(error.what()));
  }
  return said("Set parameter '" + words[2] + "' to '" + listed + "'");
}

Step Session::set_system(const std::string& text) {
  if (text.empty()) return helped("set");
  if (!text.starts_with(kBlock)) return use_system(text);
  block_ = Block::kSystem;
  has_unfinished_ = true;
  return continue_block(std::string_view(text).substr(kBlock.size()));
}

Step Session::use_system(std::string text) {
  system_ = std::move(text);
  if (!messages_.empty() && messages_.back().role == "system") messages_.pop_back();
  messages_.push_back({.role = "system", .content = system_});
  return said("Set system message.");
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
  if (Json think = think_json(settings_.think, facts_); !think.is_null()) request["think"] = think;
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
  std::vector<ChatMessage> talk;
  for (const ChatMessage& message : messages_) {
    if (message.role != "system") talk.push_back(message);
  }
  if (!talk.empty()) request["messages"] = messages_json(talk);
  return request;
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
