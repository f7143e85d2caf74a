#include "api/template_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/json.h"

namespace billow::api {
namespace {

// A conversation in which the model calls f and g and gets their results. With one call, only g is
// called.
Json sample_conversation(const TemplateRules& rules, size_t n_calls) {
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
  Json messages = {{{"role", "user"}, {"content", "question"}},
                   {{"role", "assistant"},
                    {"content", rules.has_null_contents ? Json(nullptr) : Json("")},
                    {"tool_calls", std::move(calls)}}};
  for (Json& result : results) messages.push_back(std::move(result));
  return {{"messages", std::move(messages)},
          {"tools", std::move(tools)},
          {"add_generation_prompt", true},
          {"enable_thinking", false},
          {"bos_token", ""},
          {"eos_token", ""}};
}

// Returns whether the template shows the arguments of all calls. A map that is printed like a value
// of Python is not what the model has learned.
bool shows_calls(const prompt::ChatTemplate& compiled, const TemplateRules& rules, size_t n_calls) {
  try {
    const std::string text = compiled.render(sample_conversation(rules, n_calls));
    const auto has = [&text](const char* part) { return text.find(part) != text.npos; };
    return has("Oslo") && (n_calls < 2 || has("Bergen")) && !has("{'city'");
  } catch (const Error&) {
    return false;
  }
}

bool is_short_id(std::string_view id) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return id.size() == 9 && std::ranges::all_of(id, is_alphanumeric);
}

void use_short_ids(std::vector<Message>& messages) {
  std::unordered_map<std::string, std::string> made;
  std::vector<std::string> open;  // ids of calls without results
  size_t n_made = 0;
  const auto short_id = [&](const std::string& id) {
    return is_short_id(id) ? id : fmt::format("call{:05}", n_made++ % 100'000);
  };
  for (Message& message : messages) {
    for (Part& part : message.parts) {
      auto* const call = std::get_if<ToolCall>(&part);
      if (call == nullptr) continue;
      const std::string id = short_id(call->id);
      made[std::exchange(call->id, id)] = id;
      open.push_back(id);
    }
    if (message.role != "tool") continue;
    const auto known = made.find(message.tool_call_id);
    if (!message.tool_call_id.empty() && known != made.end())
      message.tool_call_id = known->second;
    else
      message.tool_call_id = open.empty() ? short_id(message.tool_call_id) : open.front();
    std::erase(open, message.tool_call_id);
  }
}

// Moves the result of a call to `to`: the one with its id, else the first without a known id.
void move_result(const ToolCall& call, std::vector<Message>& results, std::vector<Message>& to,
                 const std::vector<std::string>& ids) {
  const auto is_of_call = [&](const Message& result) {
    return !call.id.empty() && result.tool_call_id == call.id;
  };
  const auto is_of_none = [&](const Message& result) {
    return std::ranges::find(ids, result.tool_call_id) == ids.end();
  };
  auto found = std::ranges::find_if(results, is_of_call);
  if (found == results.end()) found = std::ranges::find_if(results, is_of_none);
  if (found == results.end()) return;
  to.push_back(std::move(*found));
  results.erase(found);
}

// Divides a message with several calls. The first part has the text and the thinking.
void divide_calls(Message message, std::vector<Message>& results, std::vector<Message>& to) {
  std::vector<ToolCall> calls;
  std::vector<std::string> ids;
  std::vector<Part> others;
  for (Part& part : message.parts) {
    if (auto* call = std::get_if<ToolCall>(&part)) {
      if (!call->id.empty()) ids.push_back(call->id);
      calls.push_back(std::move(*call));
    } else {
      others.push_back(std::move(part));
    }
  }
  for (const ToolCall& call : calls) {
    Message one{.role = message.role, .parts = std::exchange(others, {})};
    one.parts.emplace_back(call);
    to.push_back(std::move(one));
    move_result(call, results, to, ids);
  }
}

void use_single_calls(std::vector<Message>& messages) {
  std::vector<Message> fitted;
  for (auto at = messages.begin(); at != messages.end();) {
    Message message = std::move(*at++);
    if (message.tool_calls().size() < 2) {
      fitted.push_back(std::move(message));
      continue;
    }
    const auto end =
        std::find_if(at, messages.end(), [](const Message& next) { return next.role != "tool"; });
    std::vector<Message> results(std::make_move_iterator(at), std::make_move_iterator(end));
    divide_calls(std::move(message), results, fitted);
    std::ranges::move(results, std::back_inserter(fitted));
    at = end;
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
  rules.has_short_ids = source.find("length != 9") != source.npos;
  for (const bool is_null : {false, true}) {
    for (const bool is_text : {false, true}) {
      TemplateRules tried = rules;
      tried.has_text_arguments = is_text;
      tried.has_null_contents = is_null;
      if (!shows_calls(compiled, tried, 1)) continue;
      tried.has_single_calls = !shows_calls(compiled, tried, 2);
      return tried;
    }
  }
  return rules;
}

void fit_messages(const TemplateRules& rules, std::vector<Message>& messages) {
  if (rules.has_single_calls) use_single_calls(messages);
  if (rules.has_null_contents) put_texts_before_calls(messages);
  if (rules.has_short_ids) use_short_ids(messages);
}

}  // namespace billow::api
