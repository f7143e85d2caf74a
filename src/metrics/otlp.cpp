#include "metrics/otlp.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "base/json.h"

namespace billow::metrics {
namespace {

using std::chrono::nanoseconds;

enum class SpanKind : uint8_t { kInternal = 1, kServer = 2 };
constexpr int kStatusError = 2;

// The flags of a span: those of W3C's trace context, and what is known about its parent.
constexpr uint32_t kSampled = 1;
constexpr uint32_t kParentIsKnown = 0x100;
constexpr uint32_t kParentIsRemote = 0x200;

Json attribute(std::string_view key, Json value) {
  return {{"key", key}, {"value", std::move(value)}};
}
Json text_value(std::string_view text) { return {{"stringValue", text}}; }
Json count_value(uint64_t count) { return {{"intValue", std::to_string(count)}}; }

// Returns only the numbers and booleans of a span's attributes.
Json attributes_of(const Span& span) {
  Json attributes = Json::array();
  const Json object = Json::parse(span.attributes, nullptr, false);
  if (!object.is_object()) return attributes;
  for (const auto& [name, value] : object.items()) {
    const std::string key = "billow." + name;
    if (value.is_boolean()) {
      attributes.push_back(attribute(key, {{"boolValue", value}}));
    } else if (value.is_number_integer()) {
      attributes.push_back(attribute(key, {{"intValue", value.dump()}}));
    } else if (value.is_number_float()) {
      attributes.push_back(attribute(key, {{"doubleValue", value}}));
    }
  }
  return attributes;
}

class Encoder {
 public:
  explicit Encoder(const OtlpTrace& trace) : trace_(trace), record_(trace.record) {
    const std::string& id = trace.span_id;
    std::from_chars(id.data(), id.data() + id.size(), root_id_, 16);
  }

  void append_to(Json& spans) const {
    spans.push_back(request());
    uint64_t number = 0;
    for (const Span& span : record_.spans) {
      if (span.end <= span.begin) continue;
      Json child = head(child_id(++number), span.name, SpanKind::kInternal, span.begin, span.end);
      child["parentSpanId"] = trace_.span_id;
      child["flags"] = kSampled | kParentIsKnown;
      child["attributes"] = attributes_of(span);
      spans.push_back(std::move(child));
    }
  }

 private:
  std::string time_at(nanoseconds since_begin) const {
    const auto begin = std::chrono::duration_cast<nanoseconds>(record_.began_at.time_since_epoch());
    return std::to_string((begin + since_begin).count());
  }

  // The ids must differ from those of spans that other programs add to the trace, so they are as
  // random as the request's own id (splitmix64).
  std::string child_id(uint64_t number) const {
    uint64_t bits = root_id_ + number * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    return fmt::format("{:016x}", bits == 0 ? 1 : bits);
  }

  Json head(const std::string& id, std::string_view name, SpanKind kind, nanoseconds begin,
            nanoseconds end) const {
    return {{"traceId", trace_.trace_id},
            {"spanId", id},
            {"name", name},
            {"kind", static_cast<int>(kind)},
            {"startTimeUnixNano", time_at(begin)},
            {"endTimeUnixNano", time_at(end)}};
  }

  Json request() const {
    const std::string_view operation = operation_of(record_.route);
    const std::string name =
        std::string(operation) + (record_.model.empty() ? "" : " " + record_.model);
    Json span = head(trace_.span_id, name, SpanKind::kServer, nanoseconds(0), record_.duration);
    if (record_.parent) span["parentSpanId"] = record_.parent->parent_id;
    span["flags"] = kSampled | kParentIsKnown | (record_.parent ? kParentIsRemote : 0);
    span["attributes"] = request_attributes(operation);
    Json events = Json::array();
    for (const Span& moment : record_.spans) {
      if (moment.end > moment.begin) continue;
      events.push_back({{"timeUnixNano", time_at(moment.begin)},
                        {"name", moment.name},
                        {"attributes", attributes_of(moment)}});
    }
    span["events"] = std::move(events);
    if (record_.status >= 500) span["status"] = {{"code", kStatusError}};
    return span;
  }

  Json request_attributes(std::string_view operation) const {
    Json all = Json::array();
    const auto add_text = [&all](std::string_view key, std::string_view text) {
      if (!text.empty()) all.push_back(attribute(key, text_value(text)));
    };
    const auto add_count = [&all](std::string_view key, uint64_t count) {
      all.push_back(attribute(key, count_value(count)));
    };
    add_text("gen_ai.operation.name", operation);
    add_text("gen_ai.provider.name", "billow");
    add_text("gen_ai.request.model", record_.model);
    if (const auto& usage = record_.usage) {
      add_count("gen_ai.usage.input_tokens", usage->n_prompt);
      if (!usage->done_reasons.empty()) {
        add_count("gen_ai.usage.cache_read.input_tokens", usage->n_cached);
        add_count("gen_ai.usage.output_tokens", usage->n_generated);
        Json reasons = Json::array();
        for (const std::string& reason : usage->done_reasons) reasons.push_back(text_value(reason));
        all.push_back(
            attribute("gen_ai.response.finish_reasons", {{"arrayValue", {{"values", reasons}}}}));
      }
    }
    add_text("http.route", record_.route);
    add_count("http.response.status_code", static_cast<uint64_t>(record_.status));
    if (record_.status >= 400) add_text("error.type", std::to_string(record_.status));
    add_text("billow.request.id", record_.id);
    if (record_.n_left_out > 0) add_count("billow.spans.left_out", record_.n_left_out);
    return all;
  }

  const OtlpTrace& trace_;
  const TraceRecord& record_;
  uint64_t root_id_ = 0;
};

}  // namespace

std::string_view operation_of(std::string_view route) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOperations = {{
      {"embed", "embeddings"},
      {"rerank", "rerank"},
      {"slots", "slots"},
      {"chat", "chat"},
      {"messages", "chat"},
      {"responses", "chat"},
  }};
  for (const auto& [part, operation] : kOperations)
    if (route.find(part) != std::string_view::npos) return operation;
  return "text_completion";
}

OtlpTrace with_ids(TraceRecord record) {
  constexpr size_t kSpanDigits = 16;
  std::string trace_id = record.parent ? record.parent->trace_id : new_request_id();
  return {.record = std::move(record),
          .trace_id = std::move(trace_id),
          .span_id = new_request_id().substr(0, kSpanDigits)};
}

std::string otlp_json(const OtlpResource& resource, std::span<const OtlpTrace> traces) {
  Json spans = Json::array();
  for (const OtlpTrace& trace : traces) Encoder(trace).append_to(spans);
  Json attributes = Json::array();
  attributes.push_back(attribute("service.name", text_value("billow")));
  attributes.push_back(attribute("service.version", text_value(resource.version)));
  if (!resource.host.empty())
    attributes.push_back(attribute("host.name", text_value(resource.host)));
  const Json scope = {{"name", "billow"}, {"version", resource.version}};
  const Json group = {{"scope", scope}, {"spans", std::move(spans)}};
  const Json of_resource = {{"resource", {{"attributes", std::move(attributes)}}},
                            {"scopeSpans", Json::array({group})}};
  const Json body = {{"resourceSpans", Json::array({of_resource})}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace billow::metrics
