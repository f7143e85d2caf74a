#include "runner/protocol.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "engine/tiny_engine.h"

namespace billow::runner {
namespace {

std::string body_of(const std::string& head, const std::vector<int32_t>& tokens = {}) {
  std::string body = head + "\n";
  const size_t at = body.size();
  body.resize(at + tokens.size() * sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(body.data() + at, tokens.data(), tokens.size() * 4);
  return body;
}

std::string refusal(const std::string& body) {
  try {
    parse_completion(body);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(Protocol, ParsesImagesAfterTokenIds) {
  const std::string head =
      R"({"n_prompt":2,"prompt_text":"ab","images":[{"at":1,"text_at":1,"n_rows":9,"n_bytes":3},)"
      R"({"at":2,"text_at":2,"n_bytes":1}]})";
  const AnswerRequest request = parse_completion(body_of(head, {5, 6}) + "abcd");
  EXPECT_EQ(request.prompt, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(request.prompt_text, "ab");
  ASSERT_EQ(request.images.size(), 2u);
  EXPECT_EQ(request.images[0].png, "abc");
  EXPECT_EQ(request.images[0].n_rows, 9u);
  EXPECT_EQ(request.images[1].png, "d");
  EXPECT_EQ(request.images[1].at, 2u);
  EXPECT_NE(refusal(body_of(head, {5, 6}) + "abc"), "") << "too few bytes";
  EXPECT_NE(refusal(body_of(head, {5, 6}) + "abcde"), "") << "too many bytes";
  EXPECT_NE(refusal(body_of(head, {5})), "") << "too few tokens";
  for (const char* image : {R"({"at":3})", R"({"text_at":3})", R"({"at":-1})", "7"})
    EXPECT_NE(
        refusal(body_of(R"({"n_prompt":1,"prompt_text":"a","images":[)" + std::string(image) + "]}",
                        {5}) +
                "x"),
        "")
        << image;
  EXPECT_NE(
      refusal(body_of(R"({"n_prompt":2,"prompt_text":"ab","images":[{"at":2},{"at":1}]})", {5, 6})),
      "");
}

TEST(Protocol, ParsesCompletionWithAllFields) {
  const AnswerRequest request = parse_completion(body_of(
      R"({"n_prompt":3,"options":{"temperature":0.5,"top_k":7,"seed":9,"repeat_last_n":-1,)"
      R"("logit_bias":[[5,1.5],[6,null]]},"stop":["a","b"],"num_predict":12,"ignore_eos":true,"bulk":true,)"
      R"("logprobs":true,"top_logprobs":2,"max_context":1024,"sizes":[64,128],)"
      R"("overflow_policy":"shift","reserve_batches":3,"overflow_batch":16,"max_repeats":30,)"
      R"("max_draft":6,"prediction":[4,70000],)"
      R"("constraint":{"kind":"regex","text":"a+","starts_after":"</t>","opens_with":"<t>",)"
      R"("may_not_start":true,"repeats_after":"</c>"}})",
      {1, 70000, 3}));
  EXPECT_EQ(request.prompt, (std::vector<int32_t>{1, 70000, 3}));
  EXPECT_EQ(request.options.sampling.temperature, 0.5f);
  EXPECT_EQ(request.options.sampling.top_k, 7);
  EXPECT_EQ(request.options.sampling.seed, 9);
  EXPECT_EQ(request.options.sampling.repeat_last_n, -1);
  ASSERT_EQ(request.options.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(request.options.sampling.logit_bias[1].bias, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(request.options.sampling.logprobs);
  EXPECT_EQ(request.options.sampling.top_logprobs, 2);
  EXPECT_EQ(request.options.max_new_tokens, 12);
  EXPECT_TRUE(request.options.ignore_eos);
  EXPECT_TRUE(request.options.is_bulk);
  EXPECT_EQ(request.options.max_draft, 6u);
  EXPECT_EQ(request.options.prediction, (std::vector<int32_t>{4, 70000}));
  EXPECT_EQ(request.options.context.max_context, 1024u);
  EXPECT_EQ(request.options.context.sizes, (std::vector<size_t>{64, 128}));
  EXPECT_EQ(request.options.context.policy, context::OverflowPolicy::kShift);
  EXPECT_EQ(request.options.context.compaction.reserve_batches, 3u);
  EXPECT_EQ(request.options.context.compaction.batch, 16u);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.max_repeats, 30u);
  EXPECT_EQ(request.constraint,
            (constraint::Constraint{.grammar = {constraint::GrammarKind::kRegex, "a+"},
                                    .starts_after = "</t>",
                                    .opens_with = "<t>",
                                    .may_not_start = true,
                                    .repeats_after = "</c>"}));
}

TEST(Protocol, AbsentFieldsHaveTheEnginesDefaults) {
  const AnswerRequest request = parse_completion(body_of("{}"));
  const engine::SequenceOptions usual;
  EXPECT_EQ(request.options.max_new_tokens, usual.max_new_tokens);
  EXPECT_EQ(request.options.sampling.temperature, usual.sampling.temperature);
  EXPECT_EQ(request.options.context.policy, usual.context.policy);
  EXPECT_EQ(request.options.context.compaction.batch, usual.context.compaction.batch);
  EXPECT_TRUE(request.prompt.empty());
  EXPECT_FALSE(request.constraint);
}

TEST(Protocol, ErrorsNameTheWrongField) {
  struct Case {
    const char* head;
    const char* named;
  };
  for (const Case& c : {Case{R"({"n_prompt":-1})", "n_prompt"},
                        {R"({"n_prompt":1})", "0 bytes"},
                        {R"({"n_prompt":99999999999999999999})", "n_prompt"},
                        {R"({"n_prompt":4611686018427387905})", "n_prompt"},
                        {R"({"n_prompt":"3"})", "n_prompt"},
                        {R"({"options":[]})", "options"},
                        {R"({"options":{"temperature":"hot"}})", "temperature"},
                        {R"({"options":{"top_p":7}})", "top_p"},
                        {R"({"options":{"top_k":2.5}})", "top_k"},
                        {R"({"options":{"top_k":4294967296}})", "top_k"},
                        {R"({"options":{"logit_bias":[[1]]}})", "logit_bias"},
                        {R"({"options":{"logit_bias":[[4294967301,1]]}})", "logit_bias"},
                        {R"({"stop":"x"})", "stop"},
                        {R"({"stop":[1]})", "stop"},
                        {R"({"num_predict":-3})", "num_predict"},
                        {R"({"ignore_eos":1})", "ignore_eos"},
                        {R"({"max_draft":-1})", "max_draft"},
                        {R"({"prediction":7})", "prediction"},
                        {R"({"prediction":["a"]})", "prediction"},
                        {R"({"top_logprobs":21})", "top_logprobs"},
                        {R"({"sizes":[-5]})", "sizes"},
                        {R"({"overflow_policy":"burn"})", "overflow_policy"},
                        {R"({"overflow_batch":0})", "overflow_batch"},
                        {R"({"max_repeats":-1})", "max_repeats"},
                        {R"({"constraint":"json"})", "constraint"},
                        {R"({"constraint":{}})", "kind"},
                        {R"({"constraint":{"kind":"yaml"}})", "kind"},
                        {R"({"constraint":{"kind":"regex","text":1}})", "text"},
                        {R"({"constraint":{"kind":"regex","lazy":true}})", "lazy"},
                        {R"({"constraint":{"kind":"regex","opens_with":"x"}})", "starts_after"},
                        {R"({"constraint":{"kind":"regex","starts_within":-1}})", "starts_within"},
                        {R"({"constraint":{"kind":"regex","repeats_after":"x"}})", "may_not_start"},
                        {R"({"constraint":{"kind":"regex","starts_after":"x","starts_within":5,)"
                         R"("may_not_start":true,"repeats_after":"x"}})",
                         "starts_within"},
                        {"[]", "JSON object"},
                        {"{", "JSON object"}}) {
    const std::string message = refusal(body_of(c.head));
    EXPECT_NE(message.find(c.named), std::string::npos) << c.head << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_NE(refusal("{}").find("line"), std::string::npos);
}

TEST(Protocol, ParsesEmbedRequests) {
  const engine::EmbedRequest plain = parse_embed(body_of(R"({"n":[2,0,1]})", {1, 70000, 3}));
  ASSERT_EQ(plain.texts.size(), 3u);
  EXPECT_EQ(plain.texts[0].tokens, (std::vector<int32_t>{1, 70000}));
  EXPECT_TRUE(plain.texts[1].tokens.empty());
  EXPECT_EQ(plain.texts[2].tokens, std::vector<int32_t>{3});
  EXPECT_EQ(plain.texts[0].n_first, 0u);
  EXPECT_FALSE(plain.texts[0].pooling || plain.is_bulk || !plain.client.empty());
  const engine::EmbedRequest whole = parse_embed(
      body_of(R"({"n":[2,1],"first":[1,0],"pooling":"cls","bulk":true,"client":"a"})", {1, 2, 3}));
  EXPECT_EQ(whole.texts[0].n_first, 1u);
  EXPECT_EQ(whole.texts[1].n_first, 0u);
  EXPECT_EQ(whole.texts[1].pooling, engine::Pooling::kFirst);
  EXPECT_TRUE(whole.is_bulk);
  EXPECT_EQ(whole.client, "a");
  EXPECT_TRUE(parse_embed(body_of(R"({"n":[]})")).texts.empty());
  for (const std::string& bad :
       {body_of("{}"), body_of(R"({"n":3})"), body_of(R"({"n":[-1]})"), body_of(R"({"n":[1.5]})"),
        body_of(R"({"n":[4611686018427387905]})"), body_of(R"({"n":[2]})", {1}),
        body_of(R"({"n":[1]})", {1, 2}), body_of("[1]"), std::string(R"({"n":[]})"),
        body_of(R"({"n":[1],"first":[2]})", {1}), body_of(R"({"n":[1],"first":[]})", {1}),
        body_of(R"({"n":[1],"pooling":"best"})", {1}), body_of(R"({"n":[1],"pooling":1})", {1}),
        body_of(R"({"n":[1],"bulk":1})", {1}), body_of(R"({"n":[1],"client":1})", {1})}) {
    EXPECT_THROW(parse_embed(bad), Error) << bad;
  }
}

TEST(Protocol, EncodesVectorSizesAndErrors) {
  const engine::EmbedAnswers answers = {
      .texts = {{.values = {1, 2}}, {.values = {}, .error = "too long", .status = 400}},
      .time = std::chrono::nanoseconds(9)};
  const std::string answer = embed_answer(answers);
  const size_t end = answer.find('\n') + 1;
  EXPECT_EQ(Json::parse(answer.substr(0, end)),
            Json::parse(R"({"n_vectors":2,"size":2,"duration":9,"sizes":[2,0],)"
                        R"("errors":[{"index":1,"status":400,"error":"too long"}]})"));
  EXPECT_EQ(answer.size() - end, 2 * sizeof(float));
  const std::string alike = embed_answer({.texts = {{.values = {1}}, {.values = {2}}}});
  EXPECT_EQ(Json::parse(alike.substr(0, alike.find('\n'))),
            Json::parse(R"({"n_vectors":2,"size":1,"duration":0})"));
}

TEST(Protocol, EncodesVectorsAfterAHeadLine) {
  const Vectors vectors{
      .n = 2, .size = 3, .values = {1, 2, 3, 4, 5, 6.5f}, .time = std::chrono::nanoseconds(9)};
  const std::string answer = embed_answer(vectors);
  const size_t end = answer.find('\n') + 1;
  EXPECT_EQ(Json::parse(answer.substr(0, end)),
            Json::parse(R"({"n_vectors":2,"size":3,"duration":9})"));
  ASSERT_EQ(answer.size() - end, 6 * sizeof(float));
  float last = 0;
  std::memcpy(&last, answer.data() + answer.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, 6.5f);
}

TEST(Protocol, RandomBytesAreParsedOrRefused) {
  std::mt19937 random(3);
  const std::string good =
      body_of(R"({"n_prompt":2,"options":{"temperature":0.5},"stop":["a"],"sizes":[64]})", {1, 2});
  for (int i = 0; i < 20000; ++i) {
    std::string body = good.substr(0, 1 + random() % good.size());
    for (unsigned n = random() % 4; n > 0; --n)
      body[random() % body.size()] = static_cast<char>(random());
    try {
      (void)parse_completion(body);
    } catch (const Error&) {
    }
  }
}

TEST(Protocol, EncodesAnswersAsJsonLines) {
  engine::TinyEngine tiny({});
  Chunk piece;
  piece.text = "a\"\n\u00e9";
  piece.sampled.push_back({5, -0.5f, {{5, -0.5f}, {6, -1.5f}}});
  engine::SequenceEvent event;
  event.event = {context::Step::kGrow, 512, 1024, 512, 100, {}};
  piece.events.push_back(event);
  piece.prefill.push_back({512, std::chrono::nanoseconds(77)});
  const std::string line = piece_line(piece, tiny.engine.tokenizer());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["text"], piece.text);
  EXPECT_EQ(json["logprobs"][0]["logprob"], -0.5f);
  EXPECT_EQ(json["logprobs"][0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(json["events"][0]["to"], 1024u);
  EXPECT_TRUE(json["events"][0]["text"].get<std::string>().starts_with("[transition] ctx512"));
  EXPECT_EQ(json["prefill"], Json::parse(R"([{"n":512,"duration":77}])"));
  for (const char* text : {"plain", "", "a\"\n\u00e9", "\\", "\x7f"}) {
    Chunk alone;
    alone.text = text;
    const std::string string = piece_line(alone, tiny.engine.tokenizer());
    EXPECT_EQ(string.find('\n'), string.size() - 1);
    EXPECT_EQ(Json::parse(string), text);
  }
  const std::string_view bytes = tiny.engine.tokenizer().piece(5, true);
  EXPECT_EQ(json["logprobs"][0]["bytes"].size(), bytes.size());

  AnswerEnd end;
  end.reason = engine::FinishReason::kLength;
  end.n_prompt = 20;
  end.tokens = {1, 2, 3};
  end.n_sampled = 4;
  Json last = Json::parse(end_line(end));
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["done_reason"], "length");
  EXPECT_EQ(last["eval_count"], 4u) << "the count includes the end token";
  EXPECT_FALSE(last.contains("error") || last.contains("stop_string"));
  end.stop_string = "END";
  EXPECT_EQ(Json::parse(end_line(end))["stop_string"], "END");
  end.error = "no memory";
  EXPECT_EQ(Json::parse(end_line(end))["error"], "no memory");
  EXPECT_EQ(error_line("x\xff"), "{\"error\":\"x\xef\xbf\xbd\"}\n");
}

}  // namespace
}  // namespace billow::runner
