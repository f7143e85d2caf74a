#include "prompt/go_messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/test_source_dir.h"

namespace billow::prompt {
namespace {

GoMessage message(const std::string& role, const std::string& content) {
  GoMessage result;
  result.role = role;
  result.content = content;
  return result;
}

GoInput conversation(std::vector<GoMessage> messages) {
  GoInput input;
  input.messages = std::move(messages);
  return input;
}

std::string rendered(const std::string& source, const GoInput& input) {
  return render(GoTemplate(source), input);
}

const char kWalk[] = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}";

TEST(GoMessages, SystemTextsAreJoinedAndStayInTheMessages) {
  const GoInput input = conversation({message("system", "A"), message("user", "U"),
                                      message("assistant", "R"), message("system", "B")});
  EXPECT_EQ(rendered("{{ .System }}|" + std::string(kWalk), input),
            "A\n\nB|<system>A<user>U<assistant>R<system>B");
}

TEST(GoMessages, AdjacentMessagesOfOneRoleAreMerged) {
  const GoInput input = conversation(
      {message("user", "1"), message("user", "2"), message("tool", "3"), message("tool", "4")});
  EXPECT_EQ(rendered(kWalk, input), "<user>1\n\n2<tool>3<tool>4");
}

TEST(GoMessages, SystemTextGoesFirstUnlessMessagesHaveOne) {
  GoInput input = conversation({message("user", "U")});
  input.system = "S";
  EXPECT_EQ(rendered(kWalk, input), "<system>S<user>U");
  input.messages.insert(input.messages.begin(), message("system", "T"));
  EXPECT_EQ(rendered(kWalk, input), "<system>T<user>U");
}

TEST(GoMessages, EachStyleSeesOnlyItsOwnVariables) {
  GoInput input = conversation({message("user", "U")});
  EXPECT_EQ(rendered("{{ .Messages | len }}{{ .Prompt }}{{ .Response }}", input), "1<no value>");
  EXPECT_EQ(rendered("{{ .Prompt }}{{ .Tools }}", input), "U<no value>");
}

TEST(GoMessages, LegacyTemplatesGetOneTurnAtATime) {
  const char legacy[] =
      "{{ if .System }}[{{ .System }}]{{ end }}{{ if .Prompt }}<{{ .Prompt }}>"
      "{{ end }}{{ .Response }}</s>";
  EXPECT_EQ(rendered(legacy, conversation({message("user", "1")})), "<1>");
  EXPECT_EQ(rendered(legacy, conversation({message("system", "S"), message("user", "1"),
                                           message("assistant", "2"), message("user", "3")})),
            "[S]<1>2</s><3>");
  EXPECT_EQ(rendered(legacy, conversation({message("user", "1"), message("system", "S"),
                                           message("user", "2")})),
            "<1></s>[S]<2>");
  EXPECT_EQ(rendered(legacy, conversation({message("user", "1"), message("assistant", "2")})),
            "<1>2");
  EXPECT_EQ(rendered("{{ .System }} {{ .Prompt }}", conversation({message("user", "1")})), " 1");
}

TEST(GoMessages, FillsInTheMiddle) {
  GoInput input;
  input.prompt = "def f(";
  input.suffix = "return 1";
  EXPECT_EQ(rendered("{{ if .Suffix }}<pre>{{ .Prompt }}<suf>{{ .Suffix }}<mid>{{ else }}"
                     "{{ range .Messages }}{{ .Content }}{{ end }}{{ end }}{{ .Response }}<end>",
                     input),
            "<pre>def f(<suf>return 1<mid>");
  input.suffix.clear();
  EXPECT_EQ(rendered(kWalk, input), "<user>def f(");
}

TEST(GoMessages, RendersPromptOnlyTemplatesAndRawPrompts) {
  GoInput input;
  input.prompt = "{{ x";
  EXPECT_EQ(rendered("{{ .Prompt }}", input), "{{ x");
  input.is_raw = true;
  EXPECT_EQ(rendered(kWalk, input), "{{ x");
}

TEST(GoMessages, TemplatesSeeThinkThinkLevelAndThinking) {
  const char source[] =
      "{{ if .IsThinkSet }}{{ .Think }}{{ .ThinkLevel }}{{ end }}"
      "{{ range .Messages }}{{ .Thinking }}{{ end }}";
  GoInput input = conversation({message("assistant", "A")});
  input.messages[0].thinking = "hm";
  EXPECT_EQ(rendered(source, input), "hm");
  input.think = true;
  input.think_level = "high";
  EXPECT_EQ(rendered(source, input), "truehighhm");
  input.think = false;
  input.think_level = "";
  EXPECT_EQ(rendered(source, input), "falsehm");
}

TEST(GoMessages, MessagesHaveImagesAndNamesOfToolResults) {
  GoInput input = conversation({message("tool", "21")});
  input.messages[0].tool_name = "f";
  input.messages[0].tool_call_id = "c1";
  input.messages[0].n_images = 2;
  EXPECT_EQ(rendered("{{ range .Messages }}{{ .ToolName }} {{ .ToolCallID }}"
                     "{{ range $i, $_ := .Images }} [img-{{ $i }}]{{ end }}{{ end }}",
                     input),
            "f c1 [img-0] [img-1]");
}

TEST(GoMessages, UnknownFieldsOfMessagesAreErrors) {
  EXPECT_THROW(rendered("{{ range .Messages }}{{ .Nothing }}{{ end }}",
                        conversation({message("user", "U")})),
               Error);
}

const std::filesystem::path kShared = source_dir() + "/../shared/data/gotmpl";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(GoMessages, PublishedTemplatesRenderAsExpected) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << "no " << kShared;
  const GoMessage system = message("system", "You are a helpful assistant.");
  const GoMessage user = message("user", "Hello, how are you?");
  const GoMessage assistant = message("assistant", "I'm doing great. How can I help you today?");
  const GoMessage again = message("user", "I'd like to show off how chat templating works!");
  const std::vector<std::pair<std::string, std::vector<GoMessage>>> cases{
      {"user", {user}},
      {"user-assistant-user", {user, assistant, again}},
      {"system-user-assistant-user", {system, user, assistant, again}}};
  size_t n_templates = 0;
  for (const auto& folder : std::filesystem::directory_iterator(kShared / "testdata")) {
    if (!folder.is_directory()) continue;
    const std::string name = folder.path().filename();
    ++n_templates;
    for (const auto& [file, messages] : cases) {
      EXPECT_EQ(rendered(read(kShared / name), conversation(messages)), read(folder.path() / file))
          << name << ", " << file;
    }
  }
  EXPECT_EQ(n_templates, 15U);
}

}  // namespace
}  // namespace billow::prompt
