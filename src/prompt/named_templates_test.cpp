#include "prompt/named_templates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "prompt/go_messages.h"

namespace billow::prompt {
namespace {

const std::filesystem::path kShared = source_dir() + "/../shared/data";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<GoMessage> conversation(bool has_system, bool has_answer) {
  std::vector<GoMessage> messages(4);
  messages[0].role = "system";
  messages[0].content = "You are a helpful assistant.";
  messages[1].role = messages[3].role = "user";
  messages[1].content = "Hello, how are you?";
  messages[2].role = "assistant";
  messages[2].content = "I'm doing great. How can I help you today?";
  messages[3].content = "I'd like to show off how chat templating works!";
  if (!has_answer) messages.resize(2);
  if (!has_system) messages.erase(messages.begin());
  return messages;
}

std::string rendered(const NamedTemplate& known, bool has_system, bool has_answer) {
  GoInput input;
  input.messages = conversation(has_system, has_answer);
  return render(GoTemplate(std::string(known.source)), input);
}

TEST(NamedTemplates, AreSortedAndHaveStops) {
  const auto all = named_templates();
  EXPECT_EQ(all.size(), 20U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const NamedTemplate& known : all) {
    EXPECT_FALSE(known.stops.empty()) << known.name;
    EXPECT_EQ(find_named_template(known.name), &known);
    EXPECT_TRUE(GoTemplate(std::string(known.source)).mentions("Messages")) << known.name;
  }
  EXPECT_EQ(find_named_template("none"), nullptr);
}

TEST(NamedTemplates, LayOutPromptsAsTheirModelsExpect) {
  const auto layout = [](const char* name) {
    return rendered(*find_named_template(name), true, true);
  };
  EXPECT_EQ(layout("alfred"),
            "<start_system>You are a helpful assistant.<end_message><start_user>Hello, how are you?"
            "<end_message><start_assistant>I'm doing great. How can I help you today?<end_message>"
            "<start_user>I'd like to show off how chat templating works!<end_message>"
            "<start_assistant>");
  EXPECT_EQ(layout("granite-instruct"),
            "System:\nYou are a helpful assistant.\n\nQuestion:\nHello, how are you?\n\nAnswer:\n"
            "I'm doing great. How can I help you today?\n\nQuestion:\n"
            "I'd like to show off how chat templating works!\n\nAnswer:\n");
  EXPECT_EQ(layout("solar-instruct"),
            "### System:\nYou are a helpful assistant.\n\n### User:\nHello, how are you?\n\n"
            "### Assistant:\nI'm doing great. How can I help you today?</s>\n\n### User:\n"
            "I'd like to show off how chat templating works!\n\n### Assistant:\n");
  EXPECT_EQ(
      layout("codellama-70b-instruct"),
      "Source: system\n\n You are a helpful assistant. <step> Source: user\n\n Hello, how are "
      "you? <step> Source: assistant\n\n I'm doing great. How can I help you today? <step> "
      "Source: user\n\n I'd like to show off how chat templating works! <step> "
      "Source: assistant\nDestination: user\n\n ");
  EXPECT_EQ(
      layout("command-r"),
      "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>You are a helpful assistant.<|END_OF_TURN_TOKEN|>"
      "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hello, how are you?<|END_OF_TURN_TOKEN|>"
      "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>I'm doing great. How can I help you today?"
      "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>I'd like to show off how chat "
      "templating works!<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
  EXPECT_EQ(layout("llama2-chat"),
            "[INST] <<SYS>>\nYou are a helpful assistant.\n<</SYS>>\n\nHello, how are you? [/INST] "
            "I'm doing great. How can I help you today?</s><s>[INST] <<SYS>><</SYS>>\n\n"
            "I'd like to show off how chat templating works! [/INST]");
}

TEST(NamedTemplates, RenderLikeThePublishedTemplates) {
  const auto folder = kShared / "gotmpl/testdata";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  size_t n_compared = 0;
  for (const NamedTemplate& known : named_templates()) {
    const auto expected = folder / (std::string(known.name) + ".gotmpl");
    if (!std::filesystem::exists(expected)) continue;
    ++n_compared;
    EXPECT_EQ(rendered(known, false, false), read(expected / "user")) << known.name;
    EXPECT_EQ(rendered(known, false, true), read(expected / "user-assistant-user")) << known.name;
    EXPECT_EQ(rendered(known, true, true), read(expected / "system-user-assistant-user"))
        << known.name;
  }
  EXPECT_EQ(n_compared, 15U);
}

TEST(NamedTemplates, HaveThePublishedStops) {
  if (!std::filesystem::exists(kShared / "gotmpl")) GTEST_SKIP() << "no " << kShared;
  for (const NamedTemplate& known : named_templates()) {
    const auto path = kShared / "gotmpl" / (std::string(known.name) + ".json");
    if (!std::filesystem::exists(path)) continue;
    const Json stops = Json::parse(read(path))["stop"];
    EXPECT_EQ(Json(std::vector<std::string>(known.stops.begin(), known.stops.end())), stops)
        << known.name;
  }
}

TEST(NamedTemplates, AreDetectedFromTheirJinjaTexts) {
  const auto path = kShared / "gotmpl/index.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Json index = Json::parse(read(path));
  EXPECT_EQ(index.size(), 37U);
  for (const Json& entry : index) {
    const auto text = entry["template"].get<std::string>();
    const NamedTemplate* found = detect_named_template(text);
    EXPECT_EQ(found ? found->name : "nothing", entry["name"].get<std::string>()) << text;
    EXPECT_EQ(detect_named_template(text + "{# a trifle #}"), found) << text;
  }
}

// Only the three files that known templates come from are detected.
TEST(NamedTemplates, OtherTemplatesAreNotDetected) {
  EXPECT_EQ(detect_named_template(""), nullptr);
  EXPECT_EQ(detect_named_template("{{ messages }}"), nullptr);
  const auto folder = kShared / "templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  std::vector<std::string> detected;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (detect_named_template(read(file.path()))) detected.push_back(file.path().filename());
  }
  std::sort(detected.begin(), detected.end());
  EXPECT_EQ(detected, (std::vector<std::string>{"google-gemma-2-2b-it.jinja",
                                                "meta-llama-Llama-3.1-8B-Instruct.jinja",
                                                "meta-llama-Llama-3.3-70B-Instruct.jinja"}));
}

}  // namespace
}  // namespace billow::prompt
