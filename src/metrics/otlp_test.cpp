#include "metrics/otlp.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/json.h"

namespace billow::metrics {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

OtlpTrace sample() {
  TraceRecord record{.id = "req-1",
                     .route = "/api/chat",
                     .node = "n",
                     .model = "m:latest",
                     .began_at = std::chrono::system_clock::time_point(std::chrono::seconds(1000)),
                     .duration = milliseconds(500),
                     .status = 200};
  record.spans = {{"tokenised", milliseconds(1), milliseconds(1), R"({"tokens":7})"},
                  {"queued", milliseconds(1), milliseconds(3), ""},
                  {"decode", milliseconds(3), milliseconds(400),
                   R"({"tokens":9,"ms":1.5,"whole":true,"reason":"a text"})"}};
  record.usage =
      Usage{.n_prompt = 7, .n_cached = 2, .n_generated = 9, .done_reasons = {"stop", "length"}};
  return {.record = record,
          .trace_id = "0af7651916cd43dd8448eb211c80319c",
          .span_id = "b7ad6b7169203331"};
}

Json spans_of(const OtlpTrace& trace) {
  const Json body = Json::parse(otlp_json({.version = "1.2", .host = "h"}, {&trace, 1}));
  return body.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans");
}

// Returns the value of an attribute as text, or "absent".
std::string attribute(const Json& span, const std::string& key) {
  for (const Json& one : span.at("attributes"))
    if (one.at("key") == key) return one.at("value").begin().value().dump();
  return "absent";
}

TEST(Otlp, EncodesARequestAndItsSpans) {
  const OtlpTrace trace = sample();
  const Json spans = spans_of(trace);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(trace.n_spans(), 3u);
  const Json& request = spans[0];
  EXPECT_EQ(request.at("name"), "chat m:latest");
  EXPECT_EQ(request.at("kind"), 2);
  EXPECT_EQ(request.at("traceId"), trace.trace_id);
  EXPECT_EQ(request.at("spanId"), trace.span_id);
  EXPECT_FALSE(request.contains("parentSpanId"));
  EXPECT_FALSE(request.contains("status"));
  EXPECT_EQ(request.at("startTimeUnixNano"), "1000000000000");
  EXPECT_EQ(request.at("endTimeUnixNano"), "1000500000000");
  EXPECT_EQ(attribute(request, "gen_ai.operation.name"), R"("chat")");
  EXPECT_EQ(attribute(request, "gen_ai.request.model"), R"("m:latest")");
  EXPECT_EQ(attribute(request, "gen_ai.usage.input_tokens"), R"("7")");
  EXPECT_EQ(attribute(request, "gen_ai.usage.cache_read.input_tokens"), R"("2")");
  EXPECT_EQ(attribute(request, "gen_ai.usage.output_tokens"), R"("9")");
  EXPECT_EQ(attribute(request, "gen_ai.response.finish_reasons"),
            R"({"values":[{"stringValue":"stop"},{"stringValue":"length"}]})");
  EXPECT_EQ(attribute(request, "http.response.status_code"), R"("200")");
  EXPECT_EQ(attribute(request, "billow.request.id"), R"("req-1")");
  EXPECT_EQ(attribute(request, "error.type"), "absent");
  ASSERT_EQ(request.at("events").size(), 1u);
  EXPECT_EQ(request["events"][0].at("name"), "tokenised");
  EXPECT_EQ(request["events"][0].at("timeUnixNano"), "1000001000000");
  EXPECT_EQ(spans[1].at("name"), "queued");
  EXPECT_EQ(spans[2].at("parentSpanId"), trace.span_id);
  EXPECT_EQ(spans[2].at("kind"), 1);
  EXPECT_EQ(attribute(spans[2], "billow.tokens"), R"("9")");
  EXPECT_EQ(attribute(spans[2], "billow.ms"), "1.5");
  EXPECT_EQ(attribute(spans[2], "billow.whole"), "true");
  EXPECT_EQ(attribute(spans[2], "billow.reason"), "absent") << "texts stay on the machine";
}

TEST(Otlp, NamesTheProgram) {
  const OtlpTrace trace = sample();
  const Json body = Json::parse(otlp_json({.version = "1.2", .host = "h"}, {&trace, 1}));
  const Json& of_resource = body.at("resourceSpans").at(0);
  EXPECT_EQ(attribute(of_resource.at("resource"), "service.name"), R"("billow")");
  EXPECT_EQ(attribute(of_resource.at("resource"), "service.version"), R"("1.2")");
  EXPECT_EQ(attribute(of_resource.at("resource"), "host.name"), R"("h")");
}

TEST(Otlp, ContinuesTheTraceOfTheClient) {
  TraceRecord record = sample().record;
  record.parent = TraceParent{.trace_id = "11112222333344445555666677778888",
                              .parent_id = "aaaabbbbccccdddd",
                              .sampled = true};
  const OtlpTrace trace = with_ids(record);
  EXPECT_EQ(trace.trace_id, record.parent->trace_id);
  EXPECT_NE(trace.span_id, record.parent->parent_id);
  const Json spans = spans_of(trace);
  EXPECT_EQ(spans[0].at("parentSpanId"), "aaaabbbbccccdddd");
  EXPECT_EQ(spans[0].at("flags"), 0x301);
  EXPECT_EQ(spans[1].at("flags"), 0x101);
}

TEST(Otlp, AllIdsDiffer) {
  std::set<std::string> ids;
  size_t n = 0;
  for (int i = 0; i < 50; ++i) {
    OtlpTrace trace = with_ids(sample().record);
    EXPECT_EQ(trace.trace_id.size(), 32u);
    EXPECT_EQ(trace.span_id.size(), 16u);
    for (const Json& span : spans_of(trace)) {
      ids.insert(span.at("spanId").get<std::string>());
      EXPECT_EQ(span.at("spanId").get<std::string>().size(), 16u);
      ++n;
    }
  }
  EXPECT_EQ(ids.size(), n);
}

TEST(Otlp, AFailureHasAStatusAndNoText) {
  for (const auto& [status, is_error] : {std::pair(500, true), {503, true}, {404, false}}) {
    OtlpTrace trace = sample();
    trace.record.status = status;
    trace.record.usage.reset();
    trace.record.model.clear();
    const Json request = spans_of(trace)[0];
    EXPECT_EQ(request.contains("status"), is_error) << status;
    EXPECT_EQ(attribute(request, "error.type"), "\"" + std::to_string(status) + "\"");
    EXPECT_EQ(attribute(request, "gen_ai.usage.input_tokens"), "absent");
    EXPECT_EQ(request.at("name"), "chat");
  }
}

TEST(Otlp, NamesOperationsByRoute) {
  const std::array<std::pair<const char*, const char*>, 9> kRows = {{
      {"/v1/chat/completions", "chat"},
      {"/v1/messages", "chat"},
      {"/v1/responses", "chat"},
      {"/v1/completions", "text_completion"},
      {"/api/generate", "text_completion"},
      {"/infill", "text_completion"},
      {"/api/embed", "embeddings"},
      {"/v1/rerank", "rerank"},
      {"/slots/:id", "slots"},
  }};
  for (const auto& [route, operation] : kRows) EXPECT_EQ(operation_of(route), operation) << route;
}

TEST(Otlp, ARecordHasEverythingOfItsTrace) {
  Trace trace("id", "/api/embed", "node");
  EXPECT_TRUE(trace.set_parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
  trace.set_model("m");
  trace.span("b", trace.began() + milliseconds(2), trace.began() + milliseconds(3));
  trace.span("a", trace.began(), trace.began() + milliseconds(1));
  trace.add_usage({.n_prompt = 3});
  trace.add_usage({.n_prompt = 4, .n_generated = 1, .done_reasons = {"stop"}});
  trace.finish(200);
  EXPECT_EQ(trace.n_spans(), 2u);
  const TraceRecord record = trace.record();
  EXPECT_EQ(record.route, "/api/embed");
  EXPECT_EQ(record.model, "m");
  EXPECT_EQ(record.status, 200);
  ASSERT_TRUE(record.parent);
  EXPECT_FALSE(record.parent->sampled);
  ASSERT_EQ(record.spans.size(), 2u);
  EXPECT_EQ(record.spans[0].name, "a");
  ASSERT_TRUE(record.usage);
  EXPECT_EQ(record.usage->n_prompt, 7u);
  EXPECT_EQ(record.usage->done_reasons, std::vector<std::string>{"stop"});
}

}  // namespace
}  // namespace billow::metrics
