// Parses any bytes as untrusted HTTP input. The first byte selects the kind: a target, header
// fields that identify the client, a host, a request, a response, a stream of lines or of events.
// Nothing crashes, and the result does not depend on how the bytes are split.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "http/access.h"
#include "http/authority.h"
#include "http/lines.h"
#include "http/parser.h"
#include "http/router.h"
#include "http/sse.h"
#include "http/url.h"

namespace {

using namespace billow;

constexpr uint32_t kMaxHeaderBytes = 1024;
constexpr size_t kMaxLineBytes = 64;

void route(std::string_view text) {
  static const http::Router router({{{http::Method::kGet, http::Method::kHead}, "/"},
                                    {{http::Method::kGet}, "/a"},
                                    {{http::Method::kGet}, "/a/:b"},
                                    {{http::Method::kPost}, "/a/b"},
                                    {{http::Method::kGet}, "/:x/c/:y"}});
  const std::string encoded = http::percent_encoded(text);
  BILLOW_CHECK(http::percent_decoded(encoded) == text);
  // The encoded text is one segment, whatever it contains.
  if (!text.empty()) {
    const http::RouteMatch whole = router.match(http::Method::kGet, "/a/" + encoded);
    BILLOW_CHECK(whole.kind == http::RouteMatch::Kind::kFound && whole.parameters.at("b") == text);
  }
  const std::optional<http::Target> target = http::parse_target(text);
  if (!target) return;
  for (const http::Method method : {http::Method::kGet, http::Method::kPost}) {
    const http::RouteMatch match = router.match(method, target->raw_path, target->raw_query);
    // The parts of the target can be decoded, so the router can decode them.
    BILLOW_CHECK(match.kind != http::RouteMatch::Kind::kMalformed);
    if (match.kind == http::RouteMatch::Kind::kFound) continue;
    const http::Response response = http::unrouted_response(match);
    if (match.kind != http::RouteMatch::Kind::kRedirect) continue;
    BILLOW_CHECK(response.status == 301 || response.status == 307);
    BILLOW_CHECK(match.location.starts_with('/') && !match.location.starts_with("//"));
    const std::optional<http::Target> next = http::parse_target(match.location);
    BILLOW_CHECK(next && router.match(method, next->raw_path).status == 200);
  }
}

// A parsed authority represents the whole text; no part of the text is ignored.
void name_host(std::string_view text) {
  const std::optional<http::Authority> authority = http::parse_authority(text);
  if (!authority) return;
  BILLOW_CHECK(text.find('@') == std::string_view::npos &&
               text.find('/') == std::string_view::npos);
  const bool has_brackets = text.starts_with('[');
  BILLOW_CHECK(text.substr(has_brackets ? 1 : 0).starts_with(authority->host));
  std::string_view rest = text.substr(authority->host.size() + (has_brackets ? 1 : 0));
  if (has_brackets) {
    BILLOW_CHECK(authority->is_ipv6 && rest.find(']') != std::string_view::npos);
    rest.remove_prefix(rest.find(']') + 1);
  }
  BILLOW_CHECK(rest.empty() || rest.front() == ':');
  BILLOW_CHECK(rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

// The text has three lines: allowed origins, an origin, a host.
void enter(std::string_view text) {
  std::vector<std::string> lines;
  http::LineSplitter splitter(text.size());
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  splitter.feed(text, take);
  splitter.finish(take);
  lines.resize(3);
  const http::MachineNames machine{.host_name = "workbench", .addresses = {"203.0.113.7"}};
  const http::AllowedOrigins origins(lines[0]);
  for (const http::Method method : {http::Method::kGet, http::Method::kOptions}) {
    http::Request request;
    request.method = method;
    request.headers = {{"Origin", lines[1]}, {"Host", lines[2]}};
    const http::Verdict verdict =
        http::check_access(origins, machine, http::BindKind::kLoopback, request);
    if (verdict.answer) {
      BILLOW_CHECK(verdict.answer->status == 204 && method == http::Method::kOptions);
    } else if (!verdict.refusal.empty()) {
      BILLOW_CHECK(utf8::is_valid(verdict.refusal) && verdict.refusal.size() < 600);
    } else {
      BILLOW_CHECK(http::is_local_host(lines[2], machine));
    }
  }
}

struct Outcome {
  bool is_done = false;
  bool has_failed = false;
  size_t n_fields = 0;
  size_t n_left_bytes = 0;  // after the message
  std::string body{};
  bool operator==(const Outcome&) const = default;
};

template <class Parser>
Outcome parse(Parser parser, std::string_view text, size_t piece_bytes) {
  std::string pending;
  Outcome outcome;
  for (size_t i = 0; i < text.size(); i += piece_bytes) {
    pending += text.substr(i, piece_bytes);
    while (!parser.done() && parser.failure() == nullptr) {
      const size_t n_used = parser.put(pending);
      BILLOW_CHECK(n_used <= pending.size());
      pending.erase(0, n_used);
      outcome.body += parser.take_body();
      if (n_used == 0) break;
    }
  }
  outcome.is_done = parser.done();
  outcome.has_failed = parser.failure() != nullptr;
  if (parser.done()) outcome.n_left_bytes = pending.size();
  if (parser.head_done()) outcome.n_fields = parser.head().headers.size();
  return outcome;
}

// Different splits may reject a message at different places, but no split may accept a rejected
// message.
bool agree(const Outcome& a, const Outcome& b) {
  if (a.has_failed || b.has_failed)
    return !(a.is_done && !a.has_failed) && !(b.is_done && !b.has_failed);
  return a == b;
}

std::string lines_of(std::string_view text, size_t piece_bytes) {
  http::LineSplitter splitter(kMaxLineBytes);
  std::string lines;
  const auto take = [&](std::string_view line) {
    BILLOW_CHECK(line.size() <= kMaxLineBytes && line.find('\n') == std::string_view::npos);
    lines.append(line).append("\n");
  };
  try {
    for (size_t i = 0; i < text.size(); i += piece_bytes) {
      splitter.feed(text.substr(i, piece_bytes), take);
    }
    splitter.finish(take);
  } catch (const Error&) {
    lines += "too long";
  }
  return lines;
}

std::string events_of(std::string_view text, size_t piece_bytes) {
  http::SseReader reader(kMaxLineBytes);
  std::string events;
  try {
    for (size_t i = 0; i < text.size(); i += piece_bytes) {
      reader.feed(text.substr(i, piece_bytes), [&](const http::SseEvent& event) {
        BILLOW_CHECK(event.data.size() <= kMaxLineBytes);
        events += http::sse_event(event.data, event.event);
      });
    }
  } catch (const Error&) {
    events += "too long";
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view text = std::string_view(bytes).substr(1);
  const size_t n = text.size() + 1;
  switch (bytes[0]) {
    case 't':
      route(text);
      break;
    case 'h':
      name_host(text);
      break;
    case 'a':
      try {
        enter(text);
      } catch (const Error&) {  // an invalid entry
      }
      break;
    case 'q': {
      const auto parser = [] { return http::RequestParser(kMaxHeaderBytes); };
      const Outcome whole = parse(parser(), text, n);
      for (const size_t piece : {size_t{1}, size_t{7}})
        BILLOW_CHECK(agree(parse(parser(), text, piece), whole));
      break;
    }
    case 'r': {
      const auto parser = [] { return http::ResponseParser(kMaxHeaderBytes, false); };
      const Outcome whole = parse(parser(), text, n);
      for (const size_t piece : {size_t{1}, size_t{7}})
        BILLOW_CHECK(agree(parse(parser(), text, piece), whole));
      break;
    }
    case 'l':
      for (const size_t piece : {size_t{1}, size_t{7}})
        BILLOW_CHECK(lines_of(text, piece) == lines_of(text, n));
      break;
    case 'e':
      for (const size_t piece : {size_t{1}, size_t{7}})
        BILLOW_CHECK(events_of(text, piece) == events_of(text, n));
      break;
    default:
      break;
  }
  return 0;
}
