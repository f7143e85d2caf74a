#include "cli/fleet/haproxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "store/digest.h"

namespace billow::cli {
namespace {

// HAProxy hashes `id * 4096 + point` in 32 bits, so larger ids would share points.
constexpr uint32_t kMaxId = (1u << 20) - 1;

// HAProxy sends a host this many times the requests that the host runs at the same time. The
// rest of them waits on the host, where the bound counts it.
constexpr size_t kWaitingFactor = 4;

// Everything before the backends. Bytes of a text that become part of the key: the head of a
// conversation, not all of it, so that requests about the same document stay together.
constexpr std::string_view kKeyRules = R"(
  # The model: its short name in lower case. A body that is larger than the buffer may have its model
  # at the end. Then the beginning of the body is searched.
  http-request set-var(txn.model) 'req.body,json_query("$.model")'
  http-request set-var(txn.model) 'url_param(model),url_dec' unless { var(txn.model) -m found }
  http-request set-var(txn.model) 'req.body,bytes(0,4096),regsub("(?s)^.*?\x22model\x22\s*:\s*\x22([^\x22]*)\x22.*$","\1")' if !{ var(txn.model) -m found } { req.body,bytes(0,4096) -m reg \x22model\x22\s*:\s*\x22[^\x22]*\x22 }
  http-request set-var(txn.model) 'var(txn.model),lower,regsub("^(registry\.ollama\.ai/)?library/",""),regsub(":latest$","")' if { var(txn.model) -m found }

  # The head of the conversation: its system prompt and its first message. Text can be in parts.
  acl in_messages path,url_dec -m str /api/chat /v1/chat/completions /chat/completions /v1/messages /v1/messages/count_tokens /apply-template
  acl in_input path,url_dec -m str /v1/responses /v1/responses/input_tokens
  acl has_system var(txn.system) -m found
  acl has_first var(txn.first) -m found
  acl system_first var(txn.role) -m str system developer

  http-request set-var(txn.role) 'req.body,json_query("$.messages[0].role")' if in_messages
  http-request set-var(txn.system) 'req.body,json_query("$.messages[0].content"),bytes(0,2048)' if in_messages system_first
  http-request set-var(txn.system) 'req.body,json_query("$.messages[0].content[0].text"),bytes(0,2048)' if in_messages system_first !has_system
  http-request set-var(txn.first) 'req.body,json_query("$.messages[1].content"),bytes(0,2048)' if in_messages system_first
  http-request set-var(txn.first) 'req.body,json_query("$.messages[1].content[0].text"),bytes(0,2048)' if in_messages system_first !has_first
  http-request set-var(txn.first) 'req.body,json_query("$.messages[0].content"),bytes(0,2048)' if in_messages !system_first
  http-request set-var(txn.first) 'req.body,json_query("$.messages[0].content[0].text"),bytes(0,2048)' if in_messages !system_first !has_first

  http-request set-var(txn.role) 'req.body,json_query("$.input[0].role")' if in_input
  http-request set-var(txn.system) 'req.body,json_query("$.instructions"),bytes(0,2048)' if in_input
  http-request set-var(txn.system) 'req.body,json_query("$.input[0].content"),bytes(0,2048)' if in_input system_first !has_system
  http-request set-var(txn.system) 'req.body,json_query("$.input[0].content[0].text"),bytes(0,2048)' if in_input system_first !has_system
  http-request set-var(txn.first) 'req.body,json_query("$.input"),bytes(0,2048)' if in_input
  http-request set-var(txn.first) 'req.body,json_query("$.input[1].content"),bytes(0,2048)' if in_input system_first !has_first
  http-request set-var(txn.first) 'req.body,json_query("$.input[1].content[0].text"),bytes(0,2048)' if in_input system_first !has_first
  http-request set-var(txn.first) 'req.body,json_query("$.input[0].content"),bytes(0,2048)' if in_input !system_first !has_first
  http-request set-var(txn.first) 'req.body,json_query("$.input[0].content[0].text"),bytes(0,2048)' if in_input !system_first !has_first

  http-request set-var(txn.first) 'req.body,json_query("$.prompt"),bytes(0,2048)' if !in_messages !in_input
  http-request set-var(txn.first) 'req.body,json_query("$.prompt[0]"),bytes(0,2048)' if !in_messages !in_input !has_first
  http-request set-var(txn.first) 'req.body,json_query("$.input_prefix"),bytes(0,2048)' if !in_messages !in_input !has_first
  http-request set-var(txn.system) 'req.body,json_query("$.system"),bytes(0,2048)' if !in_input !has_system
  http-request set-var(txn.system) 'req.body,json_query("$.system[0].text"),bytes(0,2048)' if !in_input !has_system

  # A first message without text, or larger than the buffer: the beginning of the body.
  http-request set-var(txn.first) 'req.body,bytes(0,2048)' if !has_first

  http-request set-var-fmt(txn.key) "%[var(txn.model)]|%[var(txn.system),xxh64]|%[var(txn.first),xxh64]"
  http-request set-var(txn.key) req.hdr(X-Session-Id) if { req.hdr(X-Session-Id) -m len gt 0 }
  # The key of models that one host at a time should load.
  http-request set-var(txn.place) var(txn.model)
  http-request set-var(txn.place) var(txn.key) unless { var(txn.model) -m len gt 0 }
)";

constexpr std::string_view kOwnAnswers = R"(
  # Errors of HAProxy have the form of the API.
  http-request set-var-fmt(txn.error_begin) '{"error":"'
  http-request set-var-fmt(txn.error_end) '"}'
  http-request set-var-fmt(txn.error_begin) '{"type":"error","error":{"type":"api_error","message":"' if { path_beg /v1/ }
  http-request set-var-fmt(txn.error_end) '"}}' if { path_beg /v1/ }

  # A read-only fleet: its hosts have the same store, and no client changes one of them.
  acl is_write path,url_dec -m str /api/pull /api/push /api/create /api/delete /api/copy
  acl is_write path,url_dec -m beg /api/blobs/
  http-request return status 403 content-type application/json string '{"error":"this fleet is read-only: change the store of its hosts instead"}' if is_write
  # These routes have the state of one host.
  acl is_of_one_host path,url_dec -m str /metrics /metrics/load /api/events /api/history /api/memory /api/trace /slots /ui
  acl is_of_one_host path,url_dec -m beg /api/trace/ /slots/ /ui/
  http-request return status 403 content-type application/json string '{"error":"this route has the state of one host: send the request to that host, not to the balancer"}' if is_of_one_host
  http-request return status 200 content-type text/plain string "ok\n" if { path /healthz }
  acl is_ready_question path /readyz /health
  acl names_model url_param(model) -m found
  http-request return status 200 content-type application/json string '{"ready":true}' if is_ready_question !names_model { nbsrv(hosts) gt 0 }
  http-request return status 503 content-type application/json string '{"ready":false,"reasons":["no host is ready"]}' hdr Retry-After 2 if is_ready_question !names_model
)";

std::string comma_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string address_of(const FleetHost& host) {
  return host.endpoint.url().substr(std::string_view("http://").size());
}

// "24G": exact, and as short as people write it.
std::string size_option(uint64_t n_bytes) {
  for (const auto& [shift, unit] : {std::pair(30, 'G'), std::pair(20, 'M'), std::pair(10, 'K')})
    if (n_bytes % (uint64_t{1} << shift) == 0) return fmt::format("{}{}", n_bytes >> shift, unit);
  return std::to_string(n_bytes);
}

// "pool1-qwen2.5_0.5b": a name that HAProxy allows, with the first model of the pool.
std::string pool_name(const Pool& pool, size_t position) {
  std::string name = fmt::format("pool{}-{}", position + 1, pool.models.front());
  for (char& c : name)
    if (c == '/' || c == ':') c = '_';
  return name;
}

class Writer {
 public:
  Writer(const Fleet& fleet, const Placement& placement)
      : fleet_(fleet), placement_(placement), ids_(ring_ids(fleet.hosts)) {}

  std::string run() {
    about();
    global();
    defaults();
    metrics();
    clients();
    hosts();
    for (size_t i = 0; i < placement_.pools.size(); ++i)
      pool(pool_name(placement_.pools[i], i), placement_.pools[i]);
    pool("others", placement_.others);
    return out_;
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  void about() {
    line("# HAProxy 2.6 or newer in front of a fleet of Billow servers.");
    line("# `billow fleet config` made this file: change the hosts file, not this one.");
    line("#");
    line("# Start the servers with these options:");
    for (size_t i = 0; i < fleet_.hosts.size(); ++i)
      line("#   {}: billow serve {}", fleet_.hosts[i].name, serve_options(fleet_, placement_, i));
  }

  void global() {
    line("\nglobal");
    line("  log stdout format raw daemon info");
    line("  maxconn {}", fleet_.n_max_connections);
    line("  # HAProxy sees only so much of a body. A larger body is not sent to a second host.");
    line("  tune.bufsize {}", fleet_.buffer_bytes);
    line("  # After a reload, the old process ends the streams that it has.");
    line("  hard-stop-after {}s", fleet_.timeout_seconds);
    if (!fleet_.user.empty()) line("  user {0}\n  group {0}", fleet_.user);
    if (!fleet_.certificate.empty()) line("  ssl-default-bind-options ssl-min-ver TLSv1.2");
  }

  void defaults() {
    line("\ndefaults");
    line("  mode http");
    line("  log global");
    line(
        "  log-format \"%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %ts %ac/%fc/%bc/%sc/%rc "
        "%sq/%bq model=%[var(txn.model)] id=%ID %{{+Q}}r\"");
    line("  timeout connect 2s");
    line("  timeout check 2s");
    line("  timeout http-request 60s");
    line("  timeout http-keep-alive 60s");
    line("  timeout queue 60s");
    line("  # A long prompt is read in silence.");
    line("  timeout client {0}s\n  timeout server {0}s", fleet_.timeout_seconds);
    line("  option http-no-delay");
    line("  # A host that loses its power is noticed after 25 s, also in the middle of a stream.");
    line("  option srvtcpka\n  srvtcpka-idle 10s\n  srvtcpka-intvl 5s\n  srvtcpka-cnt 3");
    line(
        "  # Another host gets what was not executed: the host did not accept the connection, "
        "ended it");
    line("  # without an answer, or answered 503. A stream that has begun is not sent again.");
    line("  retries 3\n  option redispatch 1");
    line("  retry-on conn-failure empty-response 503");
    error(502, "the host ended the connection before it answered, and so did others");
    error(503, "no host is ready, or all are full");
    error(504, "the host did not answer in time");
  }

  void error(int status, const char* message) {
    line(
        "  http-error status {} content-type application/json lf-string "
        "'%[var(txn.error_begin)]{}%[var(txn.error_end)]' hdr Retry-After 2",
        status, message);
  }

  void metrics() {
    line("\n# HAProxy's own metrics for Prometheus, and a page with its statistics.");
    line("frontend metrics");
    line("  bind {}", fleet_.metrics);
    line("  option dontlog-normal");
    line("  http-request use-service prometheus-exporter if {{ path /metrics }}");
    line("  stats enable\n  stats uri /\n  stats refresh 5s");
  }

  void clients() {
    line("\nfrontend clients");
    const std::string tls =
        fleet_.certificate.empty() ? "" : " ssl crt " + fleet_.certificate + " alpn h2,http/1.1";
    line("  bind {}{}", fleet_.listen, tls);
    line("  # The rules below read the body.");
    line("  option http-buffer-request");
    line("  option forwardfor");
    line("  unique-id-format %[uuid()]");
    line(
        "  http-request set-header X-Request-Id %[unique-id] unless {{ req.hdr(X-Request-Id) -m "
        "found }}");
    out_ += kOwnAnswers;
    out_ += kKeyRules;
    line(
        "\n  # Texts to embed and to rank have no prefix: the host with the fewest requests gets "
        "them.");
    line(
        "  acl by_load path,url_dec -m str /api/embed /api/embeddings /v1/embeddings /embed "
        "/rerank /v1/rerank");
    for (size_t i = 0; i < placement_.pools.size(); ++i) {
      const Pool& pool = placement_.pools[i];
      const std::string name = pool_name(pool, i);
      for (const std::string& model : pool.models)
        line("  acl of_pool{} var(txn.model) -m str {}", i + 1, model);
      if (pool.key == PoolKey::kPrefix)
        line("  use_backend {}-load if by_load of_pool{}", name, i + 1);
      line("  use_backend {} if of_pool{}", name, i + 1);
    }
    line("  # A question without a model, such as a list of models.");
    line("  use_backend hosts if METH_GET !{{ var(txn.model) -m len gt 0 }}");
    if (placement_.others.key == PoolKey::kPrefix) line("  use_backend others-load if by_load");
    line("  default_backend others");
  }

  void hosts() {
    line("\n# Checks the hosts for all other backends.");
    line("backend hosts");
    line("  balance leastconn");
    line("  option httpchk");
    line("  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost");
    line("  http-check expect status 200");
    for (size_t i = 0; i < fleet_.hosts.size(); ++i)
      line("  server {} {} id {} check inter {}s fall 2 rise 1", fleet_.hosts[i].name,
           address_of(fleet_.hosts[i]), ids_[i], fleet_.check_seconds);
  }

  void pool(const std::string& name, const Pool& pool) {
    const bool is_prefix = pool.key == PoolKey::kPrefix;
    line("\n# {}", pool.models.empty() ? "Models that the hosts file does not name."
                                       : comma_list(pool.models));
    line("backend {}", name);
    line("  balance hash var(txn.{})", is_prefix ? "key" : "place");
    line("  hash-type consistent sdbm avalanche");
    // A model that should be on one host stays there at any load.
    if (is_prefix && fleet_.bound_percent > 0)
      line("  hash-balance-factor {}", fleet_.bound_percent);
    servers(pool);
    if (!is_prefix) return;
    line("backend {}-load", name);
    line("  balance leastconn");
    servers(pool);
  }

  void servers(const Pool& pool) {
    for (const size_t i : pool.hosts) {
      const FleetHost& host = fleet_.hosts[i];
      line("  server {} {} id {} weight {} maxconn {} track hosts/{}", host.name, address_of(host),
           ids_[i], host.weight,
           host.n_slots * kWaitingFactor * std::max<size_t>(1, pool.models.size()), host.name);
    }
  }

  const Fleet& fleet_;
  const Placement& placement_;
  std::vector<uint32_t> ids_;
  std::string out_;
};

}  // namespace

std::string haproxy_config(const Fleet& fleet, const Placement& placement) {
  return Writer(fleet, placement).run();
}

std::vector<uint32_t> ring_ids(const std::vector<FleetHost>& hosts) {
  std::set<uint32_t> taken;
  std::vector<uint32_t> ids;
  for (const FleetHost& host : hosts) {
    const std::string digits = store::digest_of(host.name).text().substr(7, 8);  // after "sha256:"
    uint32_t id = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), id, 16);
    id = 1 + id % kMaxId;
    while (!taken.insert(id).second) id = 1 + id % kMaxId;
    ids.push_back(id);
  }
  return ids;
}

std::string serve_options(const Fleet& fleet, const Placement& placement, size_t host) {
  const FleetHost& of = fleet.hosts[host];
  std::string text = fmt::format("--host {} --node-name {} --read-only", address_of(of), of.name);
  if (of.memory_bytes) text += " --memory " + size_option(*of.memory_bytes);
  if (of.n_slots != scheduler::kAutoParallel) text += fmt::format(" --parallel {}", of.n_slots);
  for (const std::string& model : placement.preloads[host]) text += " --preload " + model;
  return text;
}

}  // namespace billow::cli
