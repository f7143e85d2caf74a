#include "scheduler/runner_wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::scheduler {
namespace {

template <typename Call>
int status_of_failure(const Call& call) {
  try {
    call();
  } catch (const http::StatusError& error) {
    return error.status();
  }
  return 0;
}

TEST(RunnerWire, WritesACompletionAsOneLineAndTokenIds) {
  Completion request;
  request.prompt = {1, 70000, 3};
  request.sampling = {.temperature = 0.5, .seed = 7};
  request.stop = {"a\nb", "\xff"};
  request.max_context = 4096;
  request.sizes = {512, 4096};
  request.logprobs = true;
  request.markers = {"<tool_call>"};
  const std::string body = completion_body(request);
  const size_t end = body.find('\n');
  const Json head = Json::parse(body.substr(0, end));
  EXPECT_EQ(head["n_prompt"], 3);
  EXPECT_EQ(head["options"]["temperature"], 0.5);
  EXPECT_EQ(head["stop"][0], "a\nb");
  EXPECT_EQ(head["stop"][1], "\xef\xbf\xbd");
  EXPECT_EQ(head["sizes"], Json({512, 4096}));
  EXPECT_EQ(head["overflow_policy"], "refill");
  EXPECT_TRUE(head["logprobs"].get<bool>());
  EXPECT_EQ(head["markers"], Json({"<tool_call>"}));
  ASSERT_EQ(body.size() - end - 1, 12u);
  std::vector<int32_t> tokens(3);
  std::memcpy(tokens.data(), body.data() + end + 1, 12);
  EXPECT_EQ(tokens, request.prompt);
  EXPECT_EQ(completion_body({}).back(), '\n');
}

TEST(RunnerWire, ImagesFollowTokenIds) {
  Completion request;
  request.prompt = {1, 2};
  request.prompt_text = "ab";
  request.images = {{.at = 1, .text_at = 1, .n_rows = 9, .png = "abc"},
                    {.at = 2, .text_at = 2, .n_rows = 8, .png = "d"}};
  const std::string body = completion_body(request);
  const size_t end = body.find('\n');
  const Json head = Json::parse(body.substr(0, end));
  EXPECT_EQ(head["prompt_text"], "ab");
  EXPECT_EQ(head["images"][0], Json({{"at", 1}, {"text_at", 1}, {"n_rows", 9}, {"n_bytes", 3}}));
  EXPECT_EQ(body.substr(end + 1 + 8), "abcd");
}

TEST(RunnerWire, MarksAscendWithinTheirText) {
  const CompletionLine line = parse_completion_line(R"({"text":"a<x><y>","marks":[[1,3],[4,3]]})");
  EXPECT_EQ(line.piece.marks, (std::vector<TextMark>{{1, 3}, {4, 3}}));
  for (const char* marks : {"[[1,7]]", "[[8,0]]", "[[4,3],[1,3]]", "[[1,3],[3,1]]", "[[1]]", "[1]",
                            "[[-1,1]]", "[[1,18446744073709551615]]"}) {
    const std::string text = R"({"text":"a<x><y>","marks":)" + std::string(marks) + "}";
    EXPECT_EQ(status_of_failure([&] { parse_completion_line(text); }), 500) << marks;
  }
}

TEST(RunnerWire, ChunkWithOnlyTextIsAString) {
  EXPECT_EQ(parse_completion_line(R"(" plain")").piece.text, " plain");
  EXPECT_EQ(parse_completion_line(R"("")").piece.text, "");
  EXPECT_EQ(parse_completion_line(R"("a\"b\\c\n\u00e9")").piece.text, "a\"b\\c\n\u00e9");
  EXPECT_EQ(parse_completion_line("\"\u00e9\"").piece.text, "\u00e9");
  for (const char* line : {"\"", "\"a", "\"a\"b\"", "\"\\\"", "\"\xff\"", "\"\t\""})
    EXPECT_EQ(status_of_failure([&] { parse_completion_line(line); }), 500) << line;
}

TEST(RunnerWire, RequestsWholeResponseIfNobodyReadsChunks) {
  const auto head = [](const Completion& request) {
    const std::string body = completion_body(request);
    return Json::parse(body.substr(0, body.find('\n')));
  };
  EXPECT_EQ(head({.prompt = {}, .may_begin_again = true})["whole"], true);
  EXPECT_FALSE(head({}).contains("whole"));
  EXPECT_EQ(head({.prompt = {}, .is_bulk = true})["bulk"], true);
  EXPECT_FALSE(head({}).contains("bulk"));
}

TEST(RunnerWire, SendsAConstraint) {
  Completion request;
  const auto head_of = [&] {
    const std::string body = completion_body(request);
    return Json::parse(body.substr(0, body.find('\n')));
  };
  EXPECT_FALSE(head_of().contains("constraint"));
  request.constraint = {.grammar = {constraint::GrammarKind::kGbnf, "root ::= \"a\"\n"},
                        .starts_after = "</think>",
                        .forced_next = "\n",
                        .opens_with = "<think>",
                        .starts_within = 7,
                        .may_not_start = true,
                        .repeats_after = "</a>"};
  const Json sent = head_of()["constraint"];
  EXPECT_EQ(sent, Json::parse(R"({"kind":"gbnf","text":"root ::= \"a\"\n",
                                  "starts_after":"</think>","forced_next":"\n","opens_with":"<think>",
                                  "starts_within":7,"may_not_start":true,
                                  "repeats_after":"</a>"})"));
}

TEST(RunnerWire, ParsesChunkWithAllFields) {
  const CompletionLine line = parse_completion_line(
      R"({"text":"ab","logprobs":[{"id":7,"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":)"
      R"([{"token":"b","logprob":null,"bytes":[255]}]}],"events":[{"kind":"transition","text":"x"}],)"
      R"("prefill":[{"n":512,"duration":12},{"n":600,"duration":3}],"later":1})");
  EXPECT_FALSE(line.is_end);
  EXPECT_EQ(line.piece.text, "ab");
  ASSERT_EQ(line.piece.logprobs.size(), 1u);
  EXPECT_EQ(line.piece.logprobs[0].bytes, "a");
  EXPECT_EQ(line.piece.logprobs[0].id, 7);
  EXPECT_FLOAT_EQ(line.piece.logprobs[0].logprob, -0.5f);
  ASSERT_EQ(line.piece.logprobs[0].top.size(), 1u);
  EXPECT_EQ(line.piece.logprobs[0].top[0].bytes, "\xff");
  EXPECT_TRUE(std::isinf(line.piece.logprobs[0].top[0].logprob));
  EXPECT_EQ(line.piece.events, std::vector<std::string>{R"({"kind":"transition","text":"x"})"});
  ASSERT_EQ(line.piece.prefill.size(), 2u);
  EXPECT_EQ(line.piece.prefill[0].n_done, 512u);
  EXPECT_EQ(line.piece.prefill[0].time.count(), 12);
}

TEST(RunnerWire, ParsesTheEnd) {
  const CompletionLine line = parse_completion_line(
      R"({"done":true,"done_reason":"length","seed":-4,"prompt_eval_count":9,)"
      R"("prompt_cached_count":5,"queue_duration":1,"prompt_eval_duration":2,"eval_count":2,)"
      R"("eval_duration":3,"tokens":[4,5],"mask_duration":8,"forced_count":2,)"
      R"("drafted_count":9,"draft_accepted_count":4,)"
      R"("stop_string":"END","error":"no memory"})");
  ASSERT_TRUE(line.is_end);
  EXPECT_EQ(line.end.done_reason, "length");
  EXPECT_EQ(line.end.stop_string, "END");
  EXPECT_EQ(line.end.error, "no memory");
  EXPECT_EQ(line.end.seed, -4);
  EXPECT_EQ(line.end.n_prompt, 9u);
  EXPECT_EQ(line.end.n_cached, 5u);
  EXPECT_EQ(line.end.n_generated, 2u);
  EXPECT_EQ(line.end.tokens, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(line.end.masked.count(), 8);
  EXPECT_EQ(line.end.n_forced, 2u);
  EXPECT_EQ(line.end.n_drafted, 9u);
  EXPECT_EQ(line.end.n_draft_accepted, 4u);
  EXPECT_EQ(line.end.queued.count() + line.end.prompted.count() + line.end.written.count(), 6);
}

TEST(RunnerWire, RejectsInvalidLines) {
  for (const char* line : {
           "",
           "nonsense",
           "[]",
           R"({"text":3})",
           R"({"done":1})",
           R"({"done":true,"tokens":[-1]})",
           R"({"done":true,"tokens":[4294967296]})",
           R"({"done":true,"seed":1.5})",
           R"({"done":true,"seed":18446744073709551615})",
           R"({"done":true,"eval_count":-1})",
           R"({"done":true,"eval_duration":18446744073709551615})",
           R"({"logprobs":{}})",
           R"({"logprobs":[1]})",
           R"({"logprobs":[{"bytes":[256]}]})",
           R"({"logprobs":[{"logprob":"x"}]})",
           R"({"events":["x"]})",
           R"({"prefill":[1]})",
           R"({"prefill":[{"n":"1"}]})",
           R"({"error":"it broke"})",
           R"({"error":3})",
       })
    EXPECT_EQ(status_of_failure([&] { parse_completion_line(line); }), 500) << line;
  try {
    parse_completion_line(R"({"error":"it broke"})");
  } catch (const http::StatusError& error) {
    EXPECT_STREQ(error.what(), "it broke");
  }
}

std::string vectors_body(const std::string& head, const std::vector<float>& values) {
  std::string body = head + "\n";
  const size_t at = body.size();
  body.resize(at + values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(body.data() + at, values.data(), body.size() - at);
  return body;
}

TEST(RunnerWire, SendsTextsAndParsesVectors) {
  const std::string body = embed_body({.inputs = {{{1, 2}}, {{}}, {{3}}}});
  EXPECT_EQ(body.substr(0, body.find('\n')), R"({"n":[2,0,1]})");
  EXPECT_EQ(body.size() - body.find('\n') - 1, 12u);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(parse_vectors(vectors_body(R"({"n_vectors":2,"size":3,"duration":9})", values), 2),
            (EmbedOutputs{{{1, 2, 3}}, {{4, 5, 6}}}));
  EXPECT_TRUE(parse_vectors(vectors_body(R"({"n_vectors":0,"size":3})", {}), 0).empty());
  for (const char* head : {R"({"n_vectors":3,"size":2})", R"({"n_vectors":2,"size":2})",
                           R"({"n_vectors":2,"size":4})", R"({"n_vectors":2,"size":0})",
                           R"({"n_vectors":2,"size":9223372036854775808})", R"({"size":3})", "x"})
    EXPECT_EQ(status_of_failure([&] { parse_vectors(vectors_body(head, values), 2); }), 500)
        << head;
  EXPECT_EQ(status_of_failure([&] { parse_vectors(R"({"n_vectors":2,"size":3})", 2); }), 500);
  EXPECT_EQ(
      status_of_failure([&] { parse_vectors(vectors_body(R"({"n_vectors":2,"size":3})", {}), 2); }),
      500);
}

TEST(RunnerWire, SendsEmbeddingOptions) {
  const std::string body = embed_body(
      {.inputs = {{{1, 2}, 1}, {{3}}}, .pooling = "rank", .is_bulk = true, .client = "c"});
  EXPECT_EQ(body.substr(0, body.find('\n')),
            R"({"n":[2,1],"first":[1,0],"pooling":"rank","bulk":true,"client":"c"})");
}

TEST(RunnerWire, ParsesVectorsOfSeveralSizesAndErrors) {
  const std::vector<float> values = {1, 2, 3};
  const std::string head =
      R"({"n_vectors":3,"size":2,"sizes":[1,0,2],"errors":[{"index":1,"status":503,"error":"no"}]})";
  EXPECT_EQ(parse_vectors(vectors_body(head, values), 3),
            (EmbedOutputs{{{1}}, {{}, "no", 503}, {{2, 3}}}));
  for (const char* wrong :
       {R"({"n_vectors":2,"sizes":[1]})", R"({"n_vectors":2,"sizes":[3,0]})",
        R"({"n_vectors":2,"sizes":[1,1]})", R"({"n_vectors":2,"sizes":[1,-2]})",
        R"({"n_vectors":1,"size":3,"errors":[{"index":1,"status":503,"error":"no"}]})",
        R"({"n_vectors":1,"size":3,"errors":[7]})"})
    EXPECT_EQ(status_of_failure(
                  [&] { parse_vectors(vectors_body(wrong, values), wrong[13] == '2' ? 2 : 1); }),
              500)
        << wrong;
}

TEST(RunnerWire, ParsesTheKvOfAText) {
  const TextKv kv = parse_text_kv(R"({"tokens":128,"bytes":5000000000})");
  EXPECT_EQ(kv.n_tokens, 128u);
  EXPECT_EQ(kv.n_bytes, 5000000000u);
  for (const char* wrong : {"x", "[]", R"({"tokens":-1})", R"({"bytes":"1"})"})
    EXPECT_EQ(status_of_failure([&] { parse_text_kv(wrong); }), 500) << wrong;
}

TEST(RunnerWire, ParsesPrefixes) {
  EXPECT_EQ(parse_prefixes(R"({"prefixes":[{"tokens":128,"digests":["a","b"]}]})"),
            (std::vector<Prefix>{{128, {"a", "b"}}}));
  EXPECT_TRUE(parse_prefixes(R"({"prefixes":[]})").empty());
  for (const char* wrong : {"x", R"({"prefixes":[1]})", R"({"prefixes":[{"digests":[1]}]})"})
    EXPECT_EQ(status_of_failure([&] { parse_prefixes(wrong); }), 500) << wrong;
}

TEST(RunnerWire, ParsesHealth) {
  const RunnerHealth loading = parse_health(R"({"status":"loading","loaded":5,"to_load":9})");
  EXPECT_EQ(loading.status, RunnerStatus::kLoading);
  EXPECT_EQ(loading.n_loaded, 5u);
  EXPECT_EQ(loading.n_to_load, 9u);
  const RunnerHealth failed =
      parse_health(R"({"status":"failed","error":"why","out_of_memory":true})");
  EXPECT_EQ(failed.status, RunnerStatus::kFailed);
  EXPECT_EQ(failed.error, "why");
  EXPECT_TRUE(failed.out_of_memory);
  const RunnerHealth ready =
      parse_health(R"({"status":"ready","running":1,"waiting":2,"max_context":3,"memory":{"x":1},)"
                   R"("budget_version":4,"held":5,"cached":6,"wanted":7,"asking":true})");
  EXPECT_EQ(ready.status, RunnerStatus::kReady);
  EXPECT_EQ(ready.n_running, 1u);
  EXPECT_EQ(ready.n_waiting, 2u);
  EXPECT_EQ(ready.max_context, 3u);
  EXPECT_EQ(ready.budget_version, 4u);
  EXPECT_EQ(ready.held_bytes, 5u);
  EXPECT_EQ(ready.cached_bytes, 6u);
  EXPECT_EQ(ready.wanted_bytes, 7u);
  EXPECT_TRUE(ready.is_asking);
  const RunnerHealth embedder =
      parse_health(R"({"status":"ready","embed_pending_tokens":8,"degraded":"why",)"
                   R"("figures":[{"name":"x_total","kind":"counter","value":9}]})");
  EXPECT_EQ(embedder.embed_pending_tokens, 8u);
  EXPECT_EQ(embedder.degraded, "why");
  ASSERT_EQ(embedder.figures.size(), 1u);
  EXPECT_EQ(embedder.figures[0].value, 9.0);
  const RunnerHealth watched = parse_health(
      R"({"status":"ready","memory":{"kv_evicted_bytes":5,"adapters_evicted_bytes":6},)"
      R"("embed_passes":[[1,1700000000000,2,30,1.5],[3,1700000000001,1,4,0]]})");
  EXPECT_EQ(watched.kv_evicted_bytes, 5u);
  EXPECT_EQ(watched.adapters_evicted_bytes, 6u);
  EXPECT_EQ(watched.embed_passes, (std::vector<PassRecord>{{1, 1700000000000, 2, 30, 1.5},
                                                           {3, 1700000000001, 1, 4, 0.0}}));
  for (const char* text :
       {"", "{}", R"({"status":"fine"})", R"({"status":"ready","held":-1})",
        R"({"status":"ready","figures":[1]})", R"({"status":"ready","embed_passes":7})",
        R"({"status":"ready","embed_passes":[7]})",
        R"({"status":"ready","embed_passes":[[1,2,3,4]]})",
        R"({"status":"ready","embed_passes":[[1,2,3,4,"x"]]})",
        R"({"status":"ready","embed_passes":[[1,-2,3,4,5]]})",
        R"({"status":"ready","embed_passes":[[1,1e300,3,4,5]]})",
        R"({"status":"ready","embed_passes":[[2,1,1,1,1],[2,1,1,1,1]]})"})
    EXPECT_EQ(status_of_failure([&] { parse_health(text); }), 500) << text;
}

TEST(RunnerWire, ParsesErrors) {
  EXPECT_EQ(error_text(R"({"error":"too long"})"), "too long");
  EXPECT_EQ(error_text("not \xff json"), "not \xef\xbf\xbd json");
  EXPECT_EQ(error_text(R"({"error":3})"), R"({"error":3})");
}

}  // namespace
}  // namespace billow::scheduler
