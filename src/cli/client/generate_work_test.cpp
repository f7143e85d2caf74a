#include "cli/client/generate_work.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/json.h"

namespace billow::cli {
namespace {

GenerateWorkOptions options_of(GenerateRecipe recipe = {}) {
  return {.model = "m", .recipe = std::move(recipe)};
}

// Returns "PATH BODY" of a row's request, or its error.
std::string request_of(const std::string& row, const GenerateWorkOptions& options = options_of()) {
  const GenerateRequest request = generate_request(options, row);
  return request.error.empty() ? request.path + " " + request.body : request.error;
}

TEST(GenerateWork, MakesRequestsOfPromptsAndMessages) {
  EXPECT_EQ(request_of(R"({"prompt":"a","label":3})"),
            R"(/api/generate {"model":"m","stream":false,"prompt":"a"})");
  EXPECT_EQ(request_of(R"({"messages":[{"role":"user","content":"a"}]})"),
            R"(/api/chat {"model":"m","stream":false,"messages":[{"role":"user","content":"a"}]})");
}

TEST(GenerateWork, AddsSettingsOfTheCommandAndOfTheRow) {
  const GenerateWorkOptions options = options_of({.system = "be brief",
                                                  .format = R"({"type":"object"})",
                                                  .options = R"({"seed":1})",
                                                  .think = false});
  EXPECT_EQ(request_of(R"({"prompt":"a"})", options),
            R"(/api/generate {"model":"m","stream":false,"options":{"seed":1},)"
            R"("format":{"type":"object"},"think":false,"prompt":"a","system":"be brief"})");
  EXPECT_EQ(
      request_of(R"({"messages":[],"system":"be long","options":{"seed":2,"top_k":3},)"
                 R"("format":"json","think":true,"tools":[]})",
                 options),
      R"(/api/chat {"model":"m","stream":false,"options":{"seed":2,"top_k":3},"format":"json",)"
      R"("think":true,"messages":[{"role":"system","content":"be long"}],"tools":[]})");
}

TEST(GenerateWork, TextRowsArePrompts) {
  GenerateWorkOptions options = options_of({.raw = true});
  options.is_json = false;
  EXPECT_EQ(request_of(R"({"prompt":1})", options),
            R"(/api/generate {"model":"m","stream":false,"prompt":"{\"prompt\":1}","raw":true})");
}

TEST(GenerateWork, AFieldCanHaveAnotherName) {
  GenerateWorkOptions options = options_of();
  options.field = "question";
  EXPECT_EQ(request_of(R"({"question":"a","prompt":"b"})", options),
            R"(/api/generate {"model":"m","stream":false,"prompt":"a"})");
  EXPECT_EQ(request_of("{}", options), R"(it has no field "question")");
}

TEST(GenerateWork, SaysWhatIsWrongWithARow) {
  const std::pair<const char*, const char*> kRows[] = {
      {"x", "it is not a JSON object"},
      {"[]", "it is not a JSON object"},
      {"{}", R"(it has neither "prompt" nor "messages")"},
      {R"({"prompt":"a","messages":[]})", R"(it has both "prompt" and "messages")"},
      {R"({"prompt":5})", "the prompt is neither a text nor a list of messages"},
      {R"({"prompt":"a","options":5})", R"("options" is not an object)"},
      {R"({"prompt":"a","system":5})", R"("system" is not a text)"},
      {R"({"prompt":"a","id":[]})", R"("id" is no text and no number)"},
      {R"({"prompt":"a","stream":true})", R"(the field "stream" is not possible in a row)"},
      {R"({"prompt":"a","tools":[]})", R"(the field "tools" is not possible with a prompt)"},
      {R"({"messages":[],"suffix":"a"})", R"(the field "suffix" is not possible with messages)"},
  };
  for (const auto& [row, error] : kRows) EXPECT_EQ(request_of(row), error) << row;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(request_of(R"({"messages":)" + deep + "}"), "it is not a JSON object");
  EXPECT_EQ(request_of(R"({"messages":[]})", options_of({.raw = true})),
            "--raw is not possible with messages");
}

TEST(GenerateWork, WritesLinesOfResults) {
  GenerateBatch batch{.row = 4};
  GenerateRequest request = generate_request(options_of(), R"({"prompt":"a","id":"x"})");
  read_generate_answer(R"({"response":"b","thinking":"c","done":true,"done_reason":"stop",)"
                       R"("prompt_eval_count":2,"eval_count":3})",
                       request, batch);
  EXPECT_EQ(batch.line,
            R"({"index":4,"id":"x","response":"b","thinking":"c","finish_reason":"stop",)"
            R"("prompt_tokens":2,"output_tokens":3})"
            "\n");
  EXPECT_EQ(batch.n_generated, 3u);
  request = generate_request(options_of(), R"({"messages":[],"id":7})");
  read_generate_answer(R"({"message":{"content":"b","tool_calls":[1]},"done":true})", request,
                       batch);
  EXPECT_EQ(batch.line, R"({"index":4,"id":7,"response":"b","tool_calls":[1],"finish_reason":"",)"
                        R"("prompt_tokens":0,"output_tokens":0})"
                        "\n");
  set_error("too long", request, batch);
  EXPECT_EQ(batch.line, "{\"index\":4,\"id\":7,\"error\":\"too long\"}\n");
}

TEST(GenerateWork, ARowWithoutAPromptHasAnError) {
  GenerateBatch batch{.row = 1};
  read_generate_answer(R"({"response":"","done":true,"done_reason":"load"})",
                       generate_request(options_of(), R"({"prompt":"","id":"x"})"), batch);
  EXPECT_EQ(batch.error, "the prompt is empty");
  EXPECT_EQ(batch.line, "{\"index\":1,\"id\":\"x\",\"error\":\"the prompt is empty\"}\n");
  read_generate_answer(R"({"message":{"content":""},"done":true,"done_reason":"load"})",
                       generate_request(options_of(), R"({"messages":[]})"), batch);
  EXPECT_EQ(batch.error, "there are no messages");
}

TEST(GenerateWork, AnInvalidAnswerIsAFaultOfTheHost) {
  const GenerateRequest prompt = generate_request(options_of(), R"({"prompt":"a"})");
  const GenerateRequest chat = generate_request(options_of(), R"({"messages":[]})");
  for (const char* body : {"", "[]", "{}", R"({"done":false,"response":""})", R"({"done":true})",
                           R"({"done":true,"response":1,"message":1})"}) {
    GenerateBatch batch;
    EXPECT_THROW(read_generate_answer(body, prompt, batch), BulkFailure) << body;
    EXPECT_THROW(read_generate_answer(body, chat, batch), BulkFailure) << body;
  }
}

TEST(GenerateWork, TheModelsTextIncludesItsMessagesFormatsAndProjectors) {
  const Json plain = {{"template", "x"}, {"modelfile", "FROM /a\nTEMPLATE x\n"}};
  // printf '{"parameters":"","system":"","template":"x"}' | sha256sum
  EXPECT_EQ(shown_text(plain),
            "sha256:c7df3c705c60517959528607ac5b63fad208a2e2129418488658dcd62bc465d8");
  Json empty = plain;
  empty["messages"] = Json::array();
  EXPECT_EQ(shown_text(empty), shown_text(plain));
  std::set<std::string> texts = {shown_text(plain)};
  for (const char* words : {"YES", "NO"}) {
    Json other = plain;
    other["messages"] = {{{"role", "assistant"}, {"content", words}}};
    texts.insert(shown_text(other));
  }
  for (const char* line : {"RENDERER a\n", "RENDERER b\n", "PARSER a\n"}) {
    Json other = plain;
    other["modelfile"] = "FROM /a\n" + std::string(line);
    texts.insert(shown_text(other));
  }
  const auto with_projector = [&](const std::string& folder, char digit) {
    Json other = plain;
    other["modelfile"] =
        "FROM /a\nTEMPLATE x\nFROM " + folder + "/sha256-" + std::string(64, digit) + "\n";
    return shown_text(other);
  };
  texts.insert({with_projector("/b", 'a'), with_projector("/b", 'b')});
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_EQ(with_projector("/b", 'a'), with_projector("/c", 'a')) << "the folder does not matter";
}

TEST(GenerateWork, OnlyEqualRecipesHaveEqualFingerprints) {
  const GenerateRecipe recipe{.weights = "sha256:00", .model_text = "sha256:01"};
  EXPECT_EQ(canonical_json(recipe),
            R"({"format":null,"model_text":"sha256:01","op":"generate","options":{},"system":"",)"
            R"("weights":"sha256:00"})");
  GenerateRecipe others[] = {recipe, recipe, recipe, recipe, recipe, recipe};
  others[0].weights = "sha256:02";
  others[1].system = "s";
  others[2].format = "\"json\"";
  others[3].options = R"({"seed":1})";
  others[4].think = false;
  others[5].raw = true;
  for (const GenerateRecipe& other : others)
    EXPECT_NE(fingerprint(other), fingerprint(recipe)) << canonical_json(other);
  others[3].options = R"({"top_k":2,"seed":1})";
  others[4] = recipe;
  others[4].options = R"({"seed":1,"top_k":2})";
  EXPECT_EQ(fingerprint(others[3]), fingerprint(others[4])) << "the order of names does not matter";
}

}  // namespace
}  // namespace billow::cli
