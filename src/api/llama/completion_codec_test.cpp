// Tests requests and answers in llama-server's form.
#include "api/llama/completion_codec.h"

#include <gtest/gtest.h>

#include "api/error_texts.h"
#include "api/llama/errors.h"
#include "api/openai/refusal.h"
#include "api/openai/test_call.h"
#include "base/json.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::api::llama {
namespace {

using openai::refusal;
using openai::text_delta;

CompletionRequest decoded(const std::string& fields) {
  return decode_completion(R"({"prompt":"p")" + (fields.empty() ? "" : "," + fields) + "}");
}
CompletionRequest infill(const std::string& fields) {
  return decode_infill(R"({"input_prefix":"a",)" + fields + "}");
}
Options options(const std::string& fields) { return decoded(fields).generation.options; }

TEST(LlamaRequest, FieldsBecomeOptions) {
  EXPECT_EQ(options("").sampling, scheduler::Sampling());
  EXPECT_EQ(options("").num_predict, std::nullopt);
  const Options all = options(
      R"("n_predict":7,"temperature":0.5,"top_k":5,"top_p":0.25,"min_p":0.125,"typical_p":0.5,)"
      R"("repeat_penalty":1.5,"repeat_last_n":9,"seed":3,"stop":["a","b"],"mirostat":1,"num_ctx":64)");
  EXPECT_EQ(all.num_predict, 7);
  EXPECT_EQ(all.sampling, (scheduler::Sampling{.temperature = 0.5,
                                               .top_p = 0.25,
                                               .min_p = 0.125,
                                               .typical_p = 0.5,
                                               .repeat_penalty = 1.5,
                                               .top_k = 5,
                                               .repeat_last_n = 9,
                                               .mirostat = 1,
                                               .seed = 3}));
  EXPECT_EQ(all.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all.num_ctx, 64u);
  const CompletionRequest request = decoded(
      R"("stream":true,"n_probs":3,"ignore_eos":true,"grammar":"root ::= \"a\"","frob":1,)"
      R"("response_fields":["content"],"cache_prompt":true,"id_slot":2,"samplers":["top_k"])");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.generation.logprobs);
  EXPECT_EQ(request.generation.top_logprobs, 3);
  EXPECT_TRUE(request.generation.ignore_eos);
  EXPECT_EQ(request.generation.grammar->kind, constraint::GrammarKind::kGbnf);
  EXPECT_EQ(request.unknown_fields, std::vector<std::string>{"frob"});
  EXPECT_EQ(request.response_fields, std::vector<std::string>{"content"});
}

TEST(LlamaRequest, FieldsWinOverOptions) {
  EXPECT_EQ(options(R"("n_predict":2,"options":{"num_predict":5})").num_predict, 2);
  EXPECT_EQ(options(R"("n_predict":2,"max_tokens":3,"options":{"num_predict":5})").num_predict, 3);
  EXPECT_EQ(options(R"("options":{"num_predict":5})").num_predict, 5);
  EXPECT_EQ(options(R"("n_predict":-1)").num_predict, -1);
}

TEST(LlamaRequest, TopPOf0IsNot1) {
  EXPECT_EQ(options(R"("top_p":0)").sampling.top_p, 0.0);
  EXPECT_EQ(infill(R"("top_p":0.0)").generation.options.sampling.top_p, 0.0);
}

// llama-server reports its random seed as 4294967295, and clients send it back.
TEST(LlamaRequest, TheLargest32BitSeedIsRandom) {
  EXPECT_EQ(options(R"("seed":4294967295)").sampling.seed, -1);
  EXPECT_EQ(options(R"("seed":4294967295,"options":{"seed":3})").sampling.seed, -1);
  EXPECT_EQ(infill(R"("seed":4294967295)").generation.options.sampling.seed, -1);
  EXPECT_EQ(options(R"("seed":4294967294)").sampling.seed, 4294967294);
}

TEST(LlamaRequest, HonoursAliases) {
  EXPECT_EQ(decoded(R"("n":3)").n, 3u);
  EXPECT_TRUE(decoded(R"("n":3)").is_list);
  EXPECT_EQ(decoded(R"("n":3,"n_cmpl":2)").n, 2u);
  EXPECT_EQ(decoded(R"("n":3,"n_cmpl":null)").n, 3u);
  const auto n_probs = [](const char* fields) {
    const GenerationRequest generation = decoded(fields).generation;
    EXPECT_EQ(generation.logprobs, generation.top_logprobs > 0) << fields;
    return generation.top_logprobs;
  };
  EXPECT_EQ(n_probs(R"("logprobs":4)"), 4);
  EXPECT_EQ(n_probs(R"("logprobs":4,"n_probs":2)"), 2);
  EXPECT_EQ(n_probs(R"("logprobs":4,"n_probs":0)"), 0);
  EXPECT_EQ(n_probs(R"("logprobs":true)"), 1);
  EXPECT_EQ(n_probs(R"("logprobs":false)"), 0);
  EXPECT_EQ(refusal(decode_completion, R"({"prompt":"p","n":0})"),
            "field \"n\" must be an integer from 1 to 128");
}

TEST(LlamaRequest, InfillMayAskForSeveralAnswers) {
  EXPECT_EQ(infill(R"("n_predict":1)").n, 1u);
  EXPECT_FALSE(infill(R"("n_cmpl":1)").is_list);
  const CompletionRequest several = infill(R"("n_cmpl":3)");
  EXPECT_EQ(several.n, 3u);
  EXPECT_TRUE(several.is_list);
  EXPECT_EQ(refusal(decode_infill, R"({"input_prefix":"a","n_cmpl":129})"),
            "field \"n_cmpl\" must be an integer from 1 to 128");
}

TEST(LlamaRequest, RefusesUnsupportedFieldsByName) {
  const auto refused = [](const std::string& fields) {
    return refusal(decode_completion, R"({"prompt":"p",)" + fields + "}");
  };
  EXPECT_EQ(refused(R"("dry_multiplier":0.5)"),
            "field \"dry_multiplier\" is not supported: this server has no such sampler");
  EXPECT_EQ(refused(R"("return_tokens":true)"),
            "field \"return_tokens\" is not supported: use /tokenize");
  EXPECT_EQ(refused(R"("adaptive_target":0.5)"),
            "field \"adaptive_target\" is not supported: this server has no such sampler");
  EXPECT_EQ(refused(R"("grammar_lazy":true)"),
            "field \"grammar_lazy\" is not supported: a grammar applies from the beginning of the "
            "answer");
  EXPECT_EQ(refused(R"("dry_multiplier":0,"dry_base":1.75,"xtc_probability":0.0,"lora":[])"), "");
  EXPECT_EQ(refused(R"("adaptive_target":-0.01,"adaptive_decay":0.9,"grammar_lazy":false,)"
                    R"("grammar_triggers":[],"reasoning_budget_tokens":-1)"),
            "");
}

TEST(LlamaRequest, PromptsMayMixTextsAndTokens) {
  using Prompts = std::vector<PromptPieces>;
  const auto prompts = [](const std::string& prompt) {
    return decode_completion(R"({"prompt":)" + prompt + "}").prompts;
  };
  EXPECT_EQ(prompts("\"a\""), (Prompts{{"a"}}));
  EXPECT_EQ(prompts("[1,2]"), (Prompts{{1, 2}}));
  EXPECT_EQ(prompts(R"([1,"a",2])"), (Prompts{{1, "a", 2}}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (Prompts{{"a"}, {"b"}}));
  EXPECT_EQ(prompts(R"([[1,"a"],"b"])"), (Prompts{{1, "a"}, {"b"}}));
  const std::pair<const char*, const char*> kRefusals[] = {
      {"{}", "field \"prompt\" is missing"},
      {R"({"prompt":[]})", "field \"prompt\" is empty"},
      {R"({"prompt":[-1]})", "field \"prompt\" has the id -1, which is not a token"},
      {R"({"prompt":["a","b"],"n_cmpl":100})", "a request has at most 128 choices, this one 200"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_completion, body), text);
  for (const char* body :
       {R"({"prompt":5})", R"({"prompt":[1.5]})", R"({"prompt":[[[1]]]})",
        R"({"prompt":["b",{"prompt_string":"<__media__>","multimodal_data":["aGk="]}]})"})
    EXPECT_TRUE(refusal(decode_completion, body).starts_with("field \"prompt\" must be a string"))
        << body;
}

TEST(CompletionRequest, ReadsPromptsWithImages) {
  const auto media =
      decode_completion(
          R"({"prompt":{"prompt_string":"a<__media__>b","multimodal_data":["aGk="]}})")
          .media;
  ASSERT_TRUE(media);
  EXPECT_EQ(media->text, "a<__media__>b");
  EXPECT_EQ(media->images, std::vector<std::string>{"hi"});
  EXPECT_TRUE(decode_completion(R"({"prompt":{"prompt_string":"a"}})").media->images.empty());
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"({"prompt":{}})", "field \"prompt\" is an object without a string \"prompt_string\""},
      {R"({"prompt":{"prompt_string":"a","multimodal_data":["aGk="]}})",
       "field \"prompt\" has 0 markers <__media__> and 1 images"},
      {R"({"prompt":{"prompt_string":"<__media__><__media__>","multimodal_data":["aGk="]}})",
       "field \"prompt\" has 2 markers <__media__> and 1 images"},
      {R"({"prompt":{"prompt_string":"<__media__>","multimodal_data":["?"]}})",
       "field \"prompt.multimodal_data\" must be a list of strings in base64"},
      {R"({"prompt":{"prompt_string":"<__media__>","multimodal_data":7}})",
       "field \"prompt.multimodal_data\" must be a list of strings in base64"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_completion, body), text);
}

tokenizer::Tokenizer sample(bool fills, bool has_files = false) {
  gguf::Writer writer = tokenizer::sample_bpe();
  if (fills) {
    writer.set_uint("tokenizer.ggml.fim_pre_token_id", 1);
    writer.set_uint("tokenizer.ggml.fim_suf_token_id", 2);
    writer.set_uint("tokenizer.ggml.fim_mid_token_id", 3);
  }
  if (has_files) {
    writer.set_uint("tokenizer.ggml.fim_rep_token_id", 4);
    writer.set_uint("tokenizer.ggml.fim_sep_token_id", 5);
  }
  return tokenizer::load_sample(writer);
}

using Ids = std::vector<int32_t>;
Ids bytes_of(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.add_special = false});
}
Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(LlamaPrompts, BecomeTokens) {
  const tokenizer::Tokenizer tokenizer = sample(false);
  EXPECT_EQ(tokens_of(tokenizer, PromptPieces{"hello"}), (Ids{259}));
  EXPECT_EQ(tokens_of(tokenizer, PromptPieces{7, "hello<bos>", 8}),
            (Ids{7, 259, tokenizer.bos(), 8}));
  EXPECT_THROW(tokens_of(tokenizer, PromptPieces{""}), http::StatusError);
}

TEST(LlamaPrompts, PutGapsBetweenFillTokens) {
  const CompletionRequest request = decode_infill(
      R"({"input_prefix":"ab","input_suffix":"c","prompt":"d","input_extra":[{"filename":"f","text":"e"}]})");
  ASSERT_TRUE(request.gap);
  EXPECT_TRUE(request.prompts.empty());
  const tokenizer::Tokenizer plain = sample(true);
  EXPECT_EQ(tokens_of(plain, *request.gap),
            bytes_of(plain, "\n\ne") + Ids{1} + bytes_of(plain, "ab") + Ids{2} +
                bytes_of(plain, "c") + Ids{3} + bytes_of(plain, "d"));
  const tokenizer::Tokenizer files = sample(true, true);
  EXPECT_EQ(tokens_of(files, *request.gap),
            Ids{4} + bytes_of(files, "project\n") + Ids{5} + bytes_of(files, "f\ne") + Ids{5} +
                bytes_of(files, "this file\n") + Ids{1} + bytes_of(files, "ab") + Ids{2} +
                bytes_of(files, "c") + Ids{3} + bytes_of(files, "d"));
  try {
    tokens_of(sample(false), *request.gap);
    FAIL();
  } catch (const http::StatusError& error) {
    EXPECT_STREQ(error.what(),
                 "the model cannot fill gaps: its vocabulary has no token for the prefix");
  }
}

const Ending kEnding{.done_reason = "stop",
                     .n_prompt = 11,
                     .n_cached = 4,
                     .n_generated = 2,
                     .prompted = std::chrono::milliseconds(14),
                     .written = std::chrono::milliseconds(8)};
constexpr const char* kTimings =
    R"("timings":{"cache_n":4,"prompt_n":7,"prompt_ms":14,"prompt_per_token_ms":2,)"
    R"("prompt_per_second":500,"predicted_n":2,"predicted_ms":8,"predicted_per_token_ms":4,)"
    R"("predicted_per_second":250})";

std::string whole(const std::string& text, const std::string& settings, const char* stop = "eos",
                  const char* word = "", size_t index = 0) {
  return R"({"index":)" + std::to_string(index) + R"(,"content":")" + text +
         R"(","tokens":[],"stop":true,"id_slot":-1,"model":"m","tokens_predicted":2,)"
         R"("tokens_evaluated":11,"generation_settings":)" +
         settings + R"(,"prompt":"p","has_new_line":false,"truncated":false,"stop_type":")" + stop +
         R"(","stopping_word":")" + word + R"(","tokens_cached":13,)" + kTimings;
}
std::string settings(const char* stream) {
  return R"({"n_predict":-1,"stop":[],"ignore_eos":false,"n_probs":0,"stream":)" +
         std::string(stream) + "}";
}

struct Answered {
  explicit Answered(const std::string& fields, size_t n_prompts = 1)
      : request(decoded(fields + (fields.empty() ? "" : ",") + R"("model":"m")")) {
    answer = completion_answer(test.call, request, std::vector<std::string>(n_prompts, "p"),
                               clock.now());
  }
  std::string body() const { return test.exchange.body(); }

  openai::TestCall test;
  openai::TestClock clock;
  CompletionRequest request;
  std::unique_ptr<CallAnswer> answer;
};

TEST(LlamaObject, HasTheWholeText) {
  Answered it("");
  EXPECT_TRUE(it.answer->holds_back());
  it.answer->delta(text_delta("gone"));
  it.answer->restart(0);
  it.answer->delta(text_delta("Hel"));
  it.answer->delta(text_delta("lo"));
  EXPECT_FALSE(it.test.exchange.has_begun);
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_EQ(it.body(), whole("Hello", settings("false")) + "}\n");
}

TEST(LlamaObject, TimingsCountDraftedTokens) {
  const auto timings_of = [](const Ending& ending) {
    Answered it("");
    it.answer->end(ending);
    return Json::parse(it.body())["timings"];
  };
  Ending ending = kEnding;
  ending.n_drafted = 9;
  ending.n_draft_accepted = 4;
  const Json timings = timings_of(ending);
  EXPECT_EQ(timings["draft_n"], 9);
  EXPECT_EQ(timings["draft_n_accepted"], 4);
  EXPECT_FALSE(timings_of(kEnding).contains("draft_n"));
}

TEST(LlamaObject, MaxDraftIsAnOption) {
  EXPECT_EQ(decoded(R"("model":"m","speculative.n_max":5)").generation.options.max_draft, 5u);
  EXPECT_EQ(decoded(R"("model":"m","speculative.n_max":0)").generation.options.max_draft, 0u);
  EXPECT_FALSE(decoded(R"("model":"m")").generation.options.max_draft.has_value());
}

TEST(LlamaObject, ReportsTheStopType) {
  const auto ended = [](const Ending& ending) {
    Answered it("");
    it.answer->end(ending);
    const Json object = Json::parse(it.body());
    return object["stop_type"].get<std::string>() + " " +
           object["stopping_word"].get<std::string>();
  };
  EXPECT_EQ(ended({.done_reason = "stop"}), "eos ");
  EXPECT_EQ(ended({.done_reason = "length"}), "limit ");
  EXPECT_EQ(ended({.done_reason = "stop", .stop_string = "END"}), "word END");
}

TEST(LlamaObject, HasOnlyTheRequestedFields) {
  Answered it(
      R"("response_fields":["content","generation_settings/n_predict","no/such","timings"])");
  it.answer->delta(text_delta("a\n"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), R"({"content":"a\n","n_predict":-1,)" + std::string(kTimings) + "}\n");
}

TEST(LlamaObject, SeveralAnswersAreAList) {
  Answered it(R"("n_cmpl":2)");
  Delta second = text_delta("b");
  second.choice = 1;
  it.answer->delta(second);
  it.answer->delta(text_delta("a"));
  Ending ending = kEnding;
  ending.choice = 1;
  it.answer->end(ending);
  EXPECT_FALSE(it.test.exchange.is_finished);
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), "[" + whole("a", settings("false")) + "}," +
                           whole("b", settings("false"), "eos", "", 1) + "}]\n");
}

TEST(LlamaStream, HasExactBytes) {
  Answered it(R"("stream":true)");
  Delta delta = text_delta("Hel");
  delta.logprobs.push_back({"Hel", -0.5, "H", {{"x", -2.0, "x", {}, 9}}, 8});
  it.answer->delta(delta);
  it.answer->delta(text_delta("lo"));
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_TRUE(it.test.exchange.is_finished);
  EXPECT_EQ(
      it.body(),
      "data: {\"index\":0,\"content\":\"Hel\",\"tokens\":[],\"stop\":false,\"id_slot\":-1,"
      "\"completion_probabilities\":[{\"id\":8,\"token\":\"Hel\",\"bytes\":[72],\"logprob\":-0.5,"
      "\"top_logprobs\":[{\"id\":9,\"token\":\"x\",\"bytes\":[120],\"logprob\":-2}]}]}\n\n"
      "data: {\"index\":0,\"content\":\"lo\",\"tokens\":[],\"stop\":false,\"id_slot\":-1}\n\n"
      "data: " +
          whole("", settings("true")) + "}\n\n");
}

TEST(LlamaStream, ErrorsEndAStreamThatHasBegun) {
  Answered early(R"("stream":true)");
  EXPECT_FALSE(early.answer->fail(500, "no"));
  Answered it(R"("stream":true)");
  it.answer->delta(text_delta("a"));
  EXPECT_TRUE(it.answer->fail(503, "no"));
  EXPECT_TRUE(it.body().ends_with(
      "data: {\"error\":{\"code\":503,\"message\":\"no\",\"type\":\"unavailable_error\"}}\n\n"));
}

// Requests of llama.vim and llama.vscode.
TEST(LlamaInfill, TakesWhatEditorsSend) {
  const CompletionRequest request = decode_infill(
      R"({"input_prefix":"a","input_suffix":"b","input_extra":[],"prompt":"c","n_predict":128,
          "n_indent":4,"top_k":40,"top_p":0.9,"samplers":["top_k","top_p","infill"],
          "stream":false,"cache_prompt":true,"t_max_prompt_ms":500,"t_max_predict_ms":1000,
          "response_fields":["content"],"id_slot":0})");
  EXPECT_TRUE(request.gap.has_value());
}

TEST(LlamaErrors, HaveATypePerStatus) {
  EXPECT_EQ(error_json(400, "no"),
            R"({"error":{"code":400,"message":"no","type":"invalid_request_error"}})");
  EXPECT_EQ(error_response(500, "no").body,
            "{\"error\":{\"code\":500,\"message\":\"no\",\"type\":\"server_error\"}}\n");
  EXPECT_EQ(Json::parse(error_json(400, std::string(kPromptTooLong)))["error"]["type"],
            "exceed_context_size_error");
  EXPECT_TRUE(is_route("/completion"));
  EXPECT_FALSE(is_route("/v1/completions"));
}

}  // namespace
}  // namespace billow::api::llama
