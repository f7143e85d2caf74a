#include "cli/client/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace billow::cli {
namespace {

using Kind = Step::Kind;

Session plain() { return Session("m", {}, {{"completion"}}); }

TEST(Session, SendsTypedText) {
  Session session = plain();
  const Step step = session.take("why?");
  EXPECT_EQ(step.kind, Kind::kAsk);
  EXPECT_EQ(step.argument, "why?");
  EXPECT_EQ(session.take("").kind, Kind::kPrompt);
  EXPECT_EQ(session.take("   ").kind, Kind::kPrompt);
}

TEST(Session, CollectsTextBetweenThreeQuotes) {
  Session session = plain();
  EXPECT_EQ(session.take("\"\"\"one").kind, Kind::kMore);
  EXPECT_EQ(session.take("/bye").kind, Kind::kMore);
  EXPECT_EQ(session.take("").kind, Kind::kMore);
  const Step step = session.take("end\"\"\"");
  EXPECT_EQ(step.kind, Kind::kAsk);
  EXPECT_EQ(step.argument, "one\n/bye\n\nend");
  EXPECT_EQ(session.take("\"\"\"all on one\"\"\"").argument, "all on one");
}

TEST(Session, NeverTreatsPastedTextAsACommand) {
  Session session = plain();
  constexpr TypedEnds kPasted{.head = 0, .tail = 0};
  for (const char* text : {"/bye", "/set verbose", "\"\"\"", "\"\"\"one", "\"\"\"one\"\"\"",
                           "one\n\"\"\"\n/bye\n\"\"\"", "/?\n"}) {
    const Step step = session.take(text, kPasted);
    EXPECT_EQ(step.kind, Kind::kAsk) << text;
    EXPECT_EQ(step.argument, text);
    EXPECT_FALSE(session.drop_unfinished()) << text;
  }
  EXPECT_EQ(session.take("\"\"\"one", kPasted).argument, "\"\"\"one");
  EXPECT_EQ(session.take("\"\"\"one\"\"\"", {.head = 3, .tail = 0}).kind, Kind::kMore);
  EXPECT_EQ(session.take("two\"\"\"", kPasted).kind, Kind::kMore);
  EXPECT_EQ(session.take("\"\"\"").argument, "one\"\"\"\ntwo\"\"\"\n");
  EXPECT_EQ(session.take("/set system \"\"\"Be\nkind.", {.head = 12, .tail = 0}).out,
            "Set system message.\n");
  EXPECT_EQ(session.messages().back().content, "\"\"\"Be\nkind.");
}

// Typing a history entry has the same effect as the original input.
TEST(Session, RepeatsAStepFromItsHistoryEntry) {
  constexpr TypedEnds kPasted{.head = 0, .tail = 0};
  const std::vector<std::pair<std::vector<std::string>, TypedEnds>> steps = {
      {{"why?"}, {}},
      {{"a\n\"\"\"\nb"}, kPasted},
      {{"/bye"}, kPasted},
      {{"/bye"}, {}},
      {{"\"\"\"one\"\"\" and\n"}, kPasted},
      {{"\"\"\"one", "/two", "three\"\"\""}, {}},
      {{"\"\"\"/one", "\"\"\""}, {}},
      {{"/set parameter seed 7"}, {}},
      {{"/set system Be kind."}, {}},
      {{"/set system \"\"\"Be", "kind.\"\"\""}, {}},
      {{"/set system \"\"\"Be\nkind."}, {.head = 12, .tail = 0}}};
  for (const auto& [lines, typed] : steps) {
    Session session = plain();
    Step step;
    for (const std::string& line : lines) {
      EXPECT_EQ(step.history, "");
      step = session.take(line, typed);
    }
    Session again = plain();
    const Step repeated = again.take(step.history);
    EXPECT_EQ(repeated.kind, step.kind) << lines[0];
    EXPECT_EQ(repeated.argument, step.argument) << lines[0];
    EXPECT_EQ(repeated.history, step.history) << lines[0];
    EXPECT_EQ(again.chat_request(), session.chat_request()) << lines[0];
  }
}

TEST(Session, DropsAnUnfinishedMessage) {
  Session session = plain();
  EXPECT_FALSE(session.drop_unfinished());
  session.take("\"\"\"one");
  EXPECT_TRUE(session.drop_unfinished());
  EXPECT_EQ(session.take("two").argument, "two");
}

TEST(Session, EndsWithByeAndExit) {
  Session session = plain();
  EXPECT_EQ(session.take("/bye").kind, Kind::kEnd);
  EXPECT_EQ(session.take("/exit").kind, Kind::kEnd);
}

TEST(Session, ReportsUnknownCommands) {
  Session session = plain();
  EXPECT_EQ(session.take("/x y").out, "Unknown command '/x'. Type /? for help\n");
  EXPECT_EQ(session.take("/").out, "Unknown command '/'. Type /? for help\n");
  EXPECT_EQ(session.take("/set frob").out, "Unknown command '/set frob'. Type /? for help\n");
  EXPECT_EQ(session.take("/show frob").out, "Unknown command '/show frob'. Type /? for help\n");
  EXPECT_EQ(session.take("/tmp/a.png what?").kind, Kind::kPrompt);
}

TEST(Session, AcceptsPathsIfTheModelHasVision) {
  Session session("m", {}, {{"completion", "vision"}});
  EXPECT_EQ(session.take("/tmp/a.png what is it?").kind, Kind::kAsk);
  EXPECT_EQ(session.take("/frob a.png").kind, Kind::kPrompt);
}

TEST(Session, PrintsHelpOnStandardError) {
  Session session = plain();
  for (const char* line : {"/?", "/help", "/? set", "/help show", "/? shortcuts", "/set", "/show",
                           "/set parameter", "/set parameter seed", "/set system"}) {
    const Step step = session.take(line);
    EXPECT_EQ(step.kind, Kind::kPrompt) << line;
    EXPECT_EQ(step.out, "") << line;
    EXPECT_NE(step.err, "") << line;
  }
}

TEST(Session, SetsParameters) {
  Session session = plain();
  EXPECT_EQ(session.take("/set parameter temperature 0.5").out,
            "Set parameter 'temperature' to '0.5'\n");
  EXPECT_EQ(session.take("/set parameter stop a b").out, "Set parameter 'stop' to 'a, b'\n");
  EXPECT_EQ(session.take("/set parameter seed 1").out, "Set parameter 'seed' to '1'\n");
  const Json options = session.chat_request()["options"];
  EXPECT_EQ(options["temperature"], 0.5);
  EXPECT_EQ(options["stop"], Json({"a", "b"}));
  EXPECT_EQ(options["seed"], 1);
  EXPECT_EQ(session.show_request()["options"]["seed"], 1);
  EXPECT_EQ(session.parameters_text({{"parameters", "stop  \"x\"\n"}}),
            "Model defined parameters:\n"
            "  stop  \"x\"\n"
            "\n"
            "User defined parameters:\n"
            "  temperature                    0.5\n"
            "  stop                           a\n"
            "  stop                           b\n"
            "  seed                           1\n"
            "\n");
}

TEST(Session, RejectsInvalidParameters) {
  Session session = plain();
  EXPECT_EQ(session.take("/set parameter frob 1").out,
            "Couldn't set parameter: \"unknown parameter 'frob'\"\n");
  EXPECT_EQ(session.take("/set parameter seed x").out,
            "Couldn't set parameter: \"invalid int value [x]\"\n");
  EXPECT_EQ(session.chat_request()["options"], Json::object());
}

TEST(Session, SetsTheSystemMessage) {
  Session session = plain();
  EXPECT_EQ(session.take("/set system You  are  kind.").out, "Set system message.\n");
  EXPECT_EQ(session.messages().back().content, "You  are  kind.");
  EXPECT_EQ(session.take("/set system \"\"\"You").kind, Kind::kMore);
  EXPECT_EQ(session.take("rhyme.\"\"\"").out, "Set system message.\n");
  ASSERT_EQ(session.messages().size(), 1u);
  EXPECT_EQ(session.messages()[0].role, "system");
  EXPECT_EQ(session.messages()[0].content, "You\nrhyme.");
  session.add({.role = "user", .content = "hi"});
  EXPECT_EQ(session.take("/clear").out, "Cleared session context\n");
  ASSERT_EQ(session.messages().size(), 1u);
  EXPECT_EQ(session.messages()[0].content, "You\nrhyme.");
  EXPECT_EQ(session.field_text("system", {{"system", "other"}}), "You\nrhyme.\n");
}

TEST(Session, SetsModes) {
  Session session = plain();
  EXPECT_EQ(session.take("/set verbose").out, "Set 'verbose' mode.\n");
  EXPECT_TRUE(session.settings().verbose);
  EXPECT_EQ(session.take("/set quiet").out, "Set 'quiet' mode.\n");
  EXPECT_FALSE(session.settings().verbose);
  EXPECT_EQ(session.take("/set nowordwrap").out, "Set 'nowordwrap' mode.\n");
  EXPECT_FALSE(session.settings().wraps_words);
  EXPECT_EQ(session.take("/set wordwrap").out, "Set 'wordwrap' mode.\n");
  EXPECT_EQ(session.take("/set history").kind, Kind::kHistoryOn);
  EXPECT_EQ(session.take("/set nohistory").kind, Kind::kHistoryOff);
  EXPECT_EQ(session.take("/set format json").out, "Set format to 'json' mode.\n");
  EXPECT_EQ(session.chat_request()["format"], "json");
  EXPECT_EQ(session.take("/set format xml").out,
            "Invalid or missing format. For 'json' mode use '/set format json'\n");
  EXPECT_EQ(session.take("/set noformat").out, "Disabled format.\n");
  EXPECT_FALSE(session.chat_request().contains("format"));
}

TEST(Session, SetsThinking) {
  Session session("m", {}, {{"completion", "thinking"}});
  EXPECT_EQ(session.chat_request()["think"], true);
  EXPECT_EQ(session.take("/set nothink").out, "Set 'nothink' mode.\n");
  EXPECT_EQ(session.chat_request()["think"], false);
  EXPECT_EQ(session.take("/set think").out, "Set 'think' mode.\n");
  EXPECT_EQ(session.chat_request()["think"], true);
  const Step step = session.take("/set think high");
  EXPECT_EQ(step.out, "Set 'think' mode to 'high'.\n");
  EXPECT_EQ(step.err, "");
  EXPECT_EQ(session.chat_request()["think"], "high");
  session.take("/set think hard");
  EXPECT_EQ(session.chat_request()["think"], "high");
}

TEST(Session, WarnsIfTheModelCannotThink) {
  Session session = plain();
  EXPECT_FALSE(session.chat_request().contains("think"));
  EXPECT_EQ(session.take("/set think").err,
            "warning: model \"m\" does not support thinking output\n");
  EXPECT_EQ(session.take("/set think high").err,
            "warning: model \"m\" does not support thinking output\n");
  EXPECT_FALSE(session.chat_request().contains("think"));  // the server would reject it
  EXPECT_EQ(session.take("/set nothink").err, "");
}

TEST(Session, WarnsIfTheModelHasNoChatTemplate) {
  const auto warning = [](const Json& reply) { return template_warning("m", model_facts(reply)); };
  const Json writes = {"completion"};
  for (const Json& reply :
       {Json{{"capabilities", writes}}, Json{{"capabilities", writes}, {"template", ""}},
        Json{{"capabilities", writes}, {"template", "{{ .Prompt }}\n"}}}) {
    EXPECT_NE(warning(reply).find("no chat template"), std::string::npos) << reply;
    EXPECT_EQ(std::ranges::count(warning(reply), '\n'), 1);
  }
  EXPECT_EQ(warning({{"capabilities", writes}, {"template", "{% for m in messages %}"}}), "");
  EXPECT_EQ(warning({{"capabilities", writes},
                     {"template", "{{ .Prompt }}"},
                     {"modelfile", "FROM x\nRENDERER harmony\n"}}),
            "");
  EXPECT_EQ(warning({{"capabilities", {"embedding"}}}), "");
  EXPECT_EQ(warning(Json::object()), "");
}

TEST(Session, LoadsAndSaves) {
  Session session = plain();
  Step step = session.take("/load other");
  EXPECT_EQ(step.kind, Kind::kLoad);
  EXPECT_EQ(step.argument, "other");
  EXPECT_EQ(step.out, "Loading model 'other'\n");
  session.take("/set system S");
  session.take("/set parameter seed 1");
  session.add({.role = "user", .content = "hi"});
  session.add({.role = "assistant", .content = "ho", .thinking = "hm"});
  step = session.take("/save mine");
  EXPECT_EQ(step.kind, Kind::kSave);
  EXPECT_EQ(session.save_request("mine").dump(),
            R"({"model":"mine","from":"m","system":"S","parameters":{"seed":1},)"
            R"("messages":[{"role":"user","content":"hi"},)"
            R"({"role":"assistant","content":"ho","thinking":"hm"}]})");
  EXPECT_EQ(session.take("/save a:b:c").out, "error: The model name 'a:b:c' is invalid\n");
  EXPECT_EQ(session.take("/save").kind, Kind::kPrompt);
  EXPECT_EQ(session.take("/load").kind, Kind::kPrompt);
  session.load("other", {});
  EXPECT_EQ(session.chat_request().dump(), R"({"model":"other","messages":[],"options":{}})");
}

TEST(Session, SavesTheMessagesOfItsModelBeforeItsOwn) {
  const Json shown = {
      {"capabilities", {"completion"}},
      {"messages",
       {{{"role", "user"}, {"content", "u1"}}, {{"role", "assistant"}, {"content", "a1"}}}}};
  Session session = plain();
  session.load("kept", model_facts(shown));
  EXPECT_EQ(session.save_request("mine").dump(), R"({"model":"mine","from":"kept"})");
  session.add({.role = "user", .content = "u2"});
  session.add({.role = "assistant", .content = "a2"});
  EXPECT_EQ(session.save_request("mine")["messages"].dump(),
            R"([{"role":"user","content":"u1"},{"role":"assistant","content":"a1"},)"
            R"({"role":"user","content":"u2"},{"role":"assistant","content":"a2"}])");
  // The server adds the model's messages.
  EXPECT_EQ(session.chat_request()["messages"].dump(),
            R"([{"role":"user","content":"u2"},{"role":"assistant","content":"a2"}])");
  // Saved onto its own model: the server has all of it.
  session.saved();
  EXPECT_EQ(session.chat_request()["messages"].dump(), "[]");
  session.add({.role = "user", .content = "u3"});
  EXPECT_EQ(session.chat_request()["messages"].dump(), R"([{"role":"user","content":"u3"}])");
  EXPECT_EQ(session.save_request("mine")["messages"].size(), 5U);
  EXPECT_TRUE(model_facts({{"messages", nullptr}}).messages.empty());
}

TEST(Session, ReportsMissingFields) {
  const Session session = plain();
  const Json none = Json::object();
  EXPECT_EQ(session.field_text("license", none), "No license was specified for this model.\n");
  EXPECT_EQ(session.field_text("system", none),
            "No system message was specified for this model.\n");
  EXPECT_EQ(session.field_text("template", none),
            "No prompt template was specified for this model.\n");
  EXPECT_EQ(session.field_text("license", {{"license", "MIT"}}), "MIT\n");
  EXPECT_EQ(session.parameters_text(none),
            "Model defined parameters:\n"
            "  No additional parameters were specified for this model.\n"
            "\n");
}

TEST(Session, SendsImagesAndKeepAlive) {
  Session session("m", {.keep_alive = "5m"}, {{"vision"}});
  session.add({.role = "user", .content = "see", .images = {"Zg=="}});
  EXPECT_EQ(session.chat_request().dump(),
            R"({"model":"m","messages":[{"role":"user","content":"see","images":["Zg=="]}],)"
            R"("options":{},"keep_alive":"5m"})");
  session.drop_last();
  EXPECT_TRUE(session.messages().empty());
}

TEST(Format, IsJsonOrASchema) {
  EXPECT_TRUE(format_json("").is_null());
  EXPECT_EQ(format_json("json"), "json");
  EXPECT_EQ(format_json(R"({"type":"object"})")["type"], "object");
  EXPECT_THROW(format_json("xml"), Error);
}

}  // namespace
}  // namespace billow::cli
