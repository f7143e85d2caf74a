#include "api/template_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/json.h"

namespace billow::api {
namespace {

constexpr const char* kSpoken = "Trondheim";

Json said(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }

// Returns the local date, like 2026-01-31.
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

Json conversation(const TemplateRules& rules, Json messages, const Json& tools = nullptr) {
  Json input = {{"messages", std::move(messages)},
                {"add_generation_prompt", true},
                {"enable_thinking", false},
                {"bos_token", ""},
                {"eos_token", ""}};
  add_tools(rules, tools, input);
  return input;
}

// Where the model says a text.
enum class Text : uint8_t { kNowhere, kWithCalls, kBefore };

// A conversation in which the model calls f and g and gets their results. With one call, only g is
// called.
Json sample_conversation(const TemplateRules& rules, size_t n_calls, Text text) {
  struct Call {
    const char* id;
    const char* name;
    const char* city;
  };
  constexpr std::array<Call, 2> kCalls = {
      {{"callabcd1", "f", "Bergen"}, {"callabcd2", "g", "Oslo"}}};
  Json calls = Json::array();
  Json results = Json::array();
  Json tools = Json::array();
  for (const Call& call : kCalls) {
    tools.push_back({{"type", "function"},
                     {"function",
                      {{"name", call.name},
                       {"description", "Returns the weather."},
                       {"parameters",
                        {{"type", "object"},
                         {"properties", {{"city", {{"type", "string"}}}}},
                         {"required", {"city"}}}}}}});
  }
  for (size_t i = kCalls.size() - n_calls; i < kCalls.size(); ++i) {
    const Call& call = kCalls[i];
    const Json arguments = {{"city", call.city}};
    calls.push_back(
        {{"type", "function"},
         {"id", call.id},
         {"function",
          {{"name", call.name},
           {"arguments", rules.has_text_arguments ? Json(arguments.dump()) : arguments}}}});
    results.push_back(
        {{"role", "tool"}, {"content", "rain"}, {"name", call.name}, {"tool_call_id", call.id}});
  }
  Json messages = Json::array({said("user", "question")});
  if (text == Text::kBefore) messages.push_back(said("assistant", kSpoken));
  messages.push_back({{"role", "assistant"},
                      {"content", rules.has_null_contents    ? Json(nullptr)
                                  : text == Text::kWithCalls ? Json(kSpoken)
                                                             : Json("")},
                      {"tool_calls", std::move(calls)}});
  for (Json& result : results) messages.push_back(std::move(result));
  return conversation(rules, std::move(messages), tools);
}

// Returns whether the template shows all `parts`. A map that is printed like a value of Python is
// not what the model has learned.
bool shows(const prompt::ChatTemplate& compiled, const Json& input,
           std::initializer_list<std::string_view> parts) {
  try {
    const std::string text = compiled.render(input);
    const auto has = [&text](std::string_view part) { return text.find(part) != text.npos; };
    return std::ranges::all_of(parts, has) && !has("{'city'");
  } catch (const Error&) {
    return false;
  }
}

bool shows(const prompt::ChatTemplate& compiled, const TemplateRules& rules,
           std::initializer_list<Json> messages,
           std::initializer_list<std::string_view> parts = {"Oslo"}) {
  Json list = Json::array();
  for (const Json& message : messages) list.push_back(message);
  return shows(compiled, conversation(rules, std::move(list)), parts);
}

bool shows_calls(const prompt::ChatTemplate& compiled, const TemplateRules& rules, size_t n_calls) {
  const Json input = sample_conversation(rules, n_calls, Text::kNowhere);
  if (n_calls < 2) return shows(compiled, input, {"Oslo"});
  return shows(compiled, input, {"Oslo", "Bergen"});
}

bool shows_text_and_call(const prompt::ChatTemplate& compiled, const TemplateRules& rules,
                         bool is_apart) {
  return shows(compiled, sample_conversation(rules, 1, is_apart ? Text::kBefore : Text::kWithCalls),
               {"Oslo", kSpoken});
}

bool is_short_id(std::string_view id) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return id.size() == 9 && std::ranges::all_of(id, is_alphanumeric);
}

using Messages = std::vector<Message>;

// Makes ids of calls that every template takes.
class NewIds {
 public:
  std::string next() { return fmt::format("call{:05}", n_made_++ % 100'000); }

 private:
  size_t n_made_ = 0;
};

std::vector<ToolCall*> calls_of(Message& message) {
  std::vector<ToolCall*> calls;
  for (Part& part : message.parts)
    if (auto* call = std::get_if<ToolCall>(&part)) calls.push_back(call);
  return calls;
}

Messages::iterator end_of_results(Messages::iterator begin, Messages::iterator end) {
  return std::find_if(begin, end, [](const Message& message) { return message.role != "tool"; });
}

// Returns the number of the call of each result; the number of calls for a result without a call.
std::vector<size_t> pairs_of(const std::vector<ToolCall*>& calls,
                             std::span<const Message> results) {
  std::vector<size_t> pairs(results.size(), calls.size());
  std::vector<bool> has_result(calls.size());
  const auto pair = [&](const auto& belongs) {
    for (size_t i = 0; i < results.size(); ++i) {
      for (size_t k = 0; k < calls.size() && pairs[i] == calls.size(); ++k) {
        if (has_result[k] || !belongs(results[i], *calls[k])) continue;
        pairs[i] = k;
        has_result[k] = true;
      }
    }
  };
  pair([](const Message& result, const ToolCall& call) {
    return !call.id.empty() && result.tool_call_id == call.id;
  });
  pair([](const Message& result, const ToolCall& call) {
    return !result.tool_name.empty() && result.tool_name == call.name;
  });
  pair([](const Message&, const ToolCall&) { return true; });
  return pairs;
}

// Puts the results of a message into the order of its calls. With `ids`, calls without ids or with
// the same id get new ids, and each result gets the id of its call.
void settle_results(Message& message, std::span<Message> results, NewIds* ids) {
  const std::vector<ToolCall*> calls = calls_of(message);
  const std::vector<size_t> pairs = pairs_of(calls, results);
  for (size_t k = 0; ids != nullptr && k < calls.size(); ++k) {
    const bool is_known =
        std::any_of(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(k),
                    [&](const ToolCall* other) { return other->id == calls[k]->id; });
    if (calls[k]->id.empty() || is_known) calls[k]->id = ids->next();
  }
  Messages sorted;
  for (size_t k = 0; k <= calls.size(); ++k) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (pairs[i] != k) continue;
      if (ids != nullptr && k < calls.size()) results[i].tool_call_id = calls[k]->id;
      sorted.push_back(std::move(results[i]));
    }
  }
  std::ranges::move(sorted, results.begin());
}

void settle_all_results(Messages& messages, NewIds* ids) {
  for (auto at = messages.begin(); at != messages.end(); ++at)
    if (!at->tool_calls().empty())
      settle_results(*at, std::span(at + 1, end_of_results(at + 1, messages.end())), ids);
}

void use_short_ids(Messages& messages, NewIds& ids) {
  std::unordered_map<std::string, std::string> made;  // of the latest message with calls
  for (Message& message : messages) {
    const std::vector<ToolCall*> calls = calls_of(message);
    if (!calls.empty()) made.clear();
    for (ToolCall* call : calls) {
      std::string id = is_short_id(call->id) ? call->id : ids.next();
      made[std::exchange(call->id, id)] = id;
    }
    if (message.role != "tool") continue;
    const auto known = made.find(message.tool_call_id);
    if (known != made.end())
      message.tool_call_id = known->second;
    else if (!is_short_id(message.tool_call_id))
      message.tool_call_id = ids.next();
  }
}

// Divides a message with several calls. The first part has the text and the thinking.
void divide_calls(Message message, std::span<Message> results, Messages& to) {
  const std::vector<size_t> pairs = pairs_of(calls_of(message), results);
  std::vector<ToolCall> calls;
  std::vector<Part> others;
  for (Part& part : message.parts) {
    if (auto* call = std::get_if<ToolCall>(&part))
      calls.push_back(std::move(*call));
    else
      others.push_back(std::move(part));
  }
  for (size_t k = 0; k < calls.size(); ++k) {
    Message one{.role = message.role, .parts = std::exchange(others, {})};
    one.parts.emplace_back(std::move(calls[k]));
    to.push_back(std::move(one));
    for (size_t i = 0; i < results.size(); ++i)
      if (pairs[i] == k) to.push_back(std::move(results[i]));
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (pairs[i] == calls.size()) to.push_back(std::move(results[i]));
}

void use_single_calls(Messages& messages) {
  Messages fitted;
  for (auto at = messages.begin(); at != messages.end();) {
    Message message = std::move(*at++);
    if (message.tool_calls().size() < 2) {
      fitted.push_back(std::move(message));
      continue;
    }
    const auto end = end_of_results(at, messages.end());
    divide_calls(std::move(message), std::span(at, end), fitted);
    at = end;
  }
  messages = std::move(fitted);
}

void join_system_messages(Messages& messages) {
  Messages fitted;
  for (Message& message : messages) {
    if (message.role == "system" && !fitted.empty() && fitted.back().role == "system")
      std::ranges::move(message.parts, std::back_inserter(fitted.back().parts));
    else
      fitted.push_back(std::move(message));
  }
  messages = std::move(fitted);
}

void put_texts_before_calls(std::vector<Message>& messages) {
  std::vector<Message> fitted;
  for (Message& message : messages) {
    if (!message.tool_calls().empty() && !message.text().empty()) {
      Message text{.role = message.role};
      std::vector<Part> calls;
      for (Part& part : message.parts)
        (std::holds_alternative<ToolCall>(part) ? calls : text.parts).push_back(std::move(part));
      message.parts = std::move(calls);
      fitted.push_back(std::move(text));
    }
    fitted.push_back(std::move(message));
  }
  messages = std::move(fitted);
}

}  // namespace

TemplateRules rules_of_text(std::string_view source) {
  const auto has = [&](const char* text) { return source.find(text) != source.npos; };
  return {.has_developer_role = has("'developer'") || has("\"developer\"") || has("`developer`")};
}

TemplateRules rules_of_jinja(const prompt::ChatTemplate& compiled, std::string_view source) {
  TemplateRules rules = rules_of_text(source);
  if (!shows(compiled, rules, {said("user", "Oslo")})) {
    rules.has_functions = true;
    rules.has_functions = shows(compiled, rules, {said("user", "Oslo")});
  }
  rules.has_developer_role = rules.has_developer_role &&
                             shows(compiled, rules, {said("developer", "Oslo"), said("user", "q")});
  rules.has_ids = true;
  rules.has_short_ids = source.find("length != 9") != source.npos;
  rules.has_one_system =
      shows(compiled, rules, {said("system", "Oslo"), said("user", "q")}) &&
      !shows(compiled, rules, {said("system", "Bergen"), said("system", "Oslo"), said("user", "q")},
             {"Bergen", "Oslo"});
  const auto takes_answer = [&](const char* answer) {
    return shows(compiled, rules,
                 {said("user", "q"), said("assistant", answer), said("user", "Oslo")});
  };
  rules.has_no_empty_answers = takes_answer("a") && !takes_answer("");
  for (const bool is_null : {false, true}) {
    for (const bool is_text : {false, true}) {
      TemplateRules tried = rules;
      tried.has_text_arguments = is_text;
      tried.has_null_contents = is_null;
      if (!shows_calls(compiled, tried, 1)) continue;
      tried.has_single_calls = !shows_calls(compiled, tried, 2);
      tried.has_lone_calls = !is_null && !shows_text_and_call(compiled, tried, false) &&
                             shows_text_and_call(compiled, tried, true);
      return tried;
    }
  }
  return rules;
}

void add_tools(const TemplateRules& rules, const Json& tools, Json& input) {
  if (tools.is_array()) input["tools"] = tools;
  if (!rules.has_functions) return;
  Json functions = Json::array();
  if (tools.is_array())
    for (const Json& tool : tools) functions.push_back(tool.value("function", tool));
  input["functions"] = functions.dump(4);
  input["datetime"] = today();
}

void fit_messages(const TemplateRules& rules, std::vector<Message>& messages) {
  NewIds ids;
  if (rules.has_one_system) join_system_messages(messages);
  if (rules.has_no_empty_answers) {
    std::erase_if(messages, [](const Message& message) {
      return message.role == "assistant" && message.text().empty() &&
             message.tool_calls().empty() && message.n_images() == 0;
    });
  }
  settle_all_results(messages, rules.has_ids ? &ids : nullptr);
  if (rules.has_short_ids) use_short_ids(messages, ids);
  if (rules.has_null_contents || rules.has_lone_calls) put_texts_before_calls(messages);
  if (rules.has_single_calls) use_single_calls(messages);
}

}  // namespace billow::api
