#include "http/access.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow::http {
namespace {

const MachineNames& machine() {
  static const MachineNames names{.host_name = "Workbench",
                                  .addresses = {"203.0.113.7", "fe80::1234"}};
  return names;
}

Request request(Method method, Headers headers) {
  Request made;
  made.method = method;
  made.headers = std::move(headers);
  return made;
}

Verdict ask(Method method, Headers headers, BindKind bind = BindKind::kLoopback,
            std::string_view list = {}) {
  return check_access(AllowedOrigins(list), machine(), bind, request(method, std::move(headers)));
}

int status(const Verdict& verdict) {
  if (!verdict.refusal.empty()) return 403;
  return verdict.answer ? verdict.answer->status : 0;
}

TEST(AllowedOrigins, AllowThisMachineAndDesktopApplicationsByDefault) {
  const AllowedOrigins origins;
  for (const char* origin :
       {"http://localhost", "https://localhost", "http://localhost:3000", "https://127.0.0.1:1",
        "http://127.0.0.1", "http://0.0.0.0:65535", "app://obsidian.md", "file://x",
        "tauri://localhost", "vscode-webview://abc", "vscode-file://vscode-app",
        "HTTP://LocalHost:80"}) {
    EXPECT_TRUE(origins.allows(origin)) << origin;
  }
}

TEST(AllowedOrigins, RefuseTextAfterTheHost) {
  const AllowedOrigins origins;
  for (const char* origin :
       {"http://localhost.evil.example", "http://localhostevil", "http://localhost:",
        "http://localhost:80.evil.example", "http://localhost:8o", "http://localhost:123456",
        "http://localhost:80@evil.example", "http://127.0.0.1.evil", "http://example.com", "null",
        "http://localhost:-1", "ftp://localhost", "", "app:/x", "http://evil/http://localhost"}) {
    EXPECT_FALSE(origins.allows(origin)) << origin;
  }
}

TEST(AllowedOrigins, AllowListedEntriesAndPatterns) {
  const AllowedOrigins origins(
      " http://example.com , https://*.example.org,,http://192.168.*,chrome-extension://*,"
      "http://any.example:*,http://a*b.example:80");
  for (const char* origin :
       {"http://example.com", "https://x.example.org", "https://a.b.example.org",
        "http://192.168.1.2", "chrome-extension://abc", "http://any.example:8080",
        "http://localhost:1", "http://axb.example:80", "http://ab.example:80"}) {
    EXPECT_TRUE(origins.allows(origin)) << origin;
  }
  for (const char* origin :
       {"https://example.com", "http://example.com:80", "https://example.org", "http://any.example",
        "http://any.example:", "http://b.example:80", "http://a.example:80"}) {
    EXPECT_FALSE(origins.allows(origin)) << origin;
  }
}

TEST(AllowedOrigins, ErrorNamesTheMalformedEntry) {
  for (const char* entry : {"example.com", "http://", "://x", "http:/x", "1a://x", "a b://c",
                            "http://*.x.*", "**", "http://*:*"}) {
    try {
      const AllowedOrigins origins(std::string("http://good.example,") + entry);
      FAIL() << entry;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
      EXPECT_NE(std::string(error.what()).find("\"" + std::string(entry) + "\""), std::string::npos)
          << error.what();
    }
  }
}

TEST(Cors, IgnoresRequestsWithoutAForeignOrigin) {
  EXPECT_EQ(status(ask(Method::kGet, {{"Host", "localhost"}})), 0);
  EXPECT_EQ(ask(Method::kGet, {{"Host", "localhost"}}).headers.size(), 0u);
  for (const char* origin : {"http://h.local:1", "https://h.local:1"}) {
    const Verdict verdict = ask(Method::kPost, {{"Host", "h.local:1"}, {"Origin", origin}});
    EXPECT_EQ(status(verdict), 0);
    EXPECT_EQ(verdict.headers.size(), 0u);
  }
}

TEST(Cors, RefusesForeignPagesForAllMethods) {
  for (const Method method : {Method::kGet, Method::kPost, Method::kOptions, Method::kDelete}) {
    const Verdict verdict = ask(method, {{"Host", "localhost"}, {"Origin", "http://evil.example"}});
    EXPECT_EQ(status(verdict), 403);
    EXPECT_NE(verdict.refusal.find("\"http://evil.example\""), std::string::npos);
  }
}

TEST(Cors, PreflightResponseListsMethodsAndHeaders) {
  const Verdict verdict =
      ask(Method::kOptions, {{"Host", "localhost"}, {"Origin", "http://localhost:3000"}});
  ASSERT_EQ(status(verdict), 204);
  const Headers& headers = verdict.answer->headers;
  EXPECT_EQ(headers.get("Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(headers.get("Access-Control-Allow-Methods"), "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS");
  EXPECT_EQ(headers.get("Access-Control-Max-Age"), "43200");
  EXPECT_EQ(headers.get("Vary"),
            "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  for (const char* name :
       {"Authorization", "Content-Type", "User-Agent", "Accept", "X-Requested-With", "OpenAI-Beta",
        "x-stainless-lang", "x-stainless-custom-poll-interval", "x-stainless-timeout",
        "X-Request-Id", "traceparent", "X-Billow-Events"}) {
    EXPECT_TRUE(headers.has_token("Access-Control-Allow-Headers", name)) << name;
  }
  EXPECT_EQ(headers.find("Access-Control-Allow-Credentials"), nullptr);
}

// Browsers do not send a request if the response to its preflight lacks one of its headers.
TEST(Cors, ClientLibrariesMaySendTheirHeaders) {
  const Verdict verdict =
      ask(Method::kOptions, {{"Host", "localhost"}, {"Origin", "http://localhost:3000"}});
  for (const char* name :
       {"x-api-key", "anthropic-version", "anthropic-beta",
        "anthropic-dangerous-direct-browser-access", "openai-organization", "openai-project",
        "x-stainless-helper", "idempotency-key", "x-client-request-id", "tracestate", "baggage",
        "x-billow-priority", "x-billow-client"}) {
    EXPECT_TRUE(verdict.answer->headers.has_token("Access-Control-Allow-Headers", name)) << name;
  }
}

TEST(Cors, ResponsesNameTheOrigin) {
  const Verdict verdict =
      ask(Method::kPost, {{"Host", "localhost"}, {"Origin", "app://obsidian.md"}});
  EXPECT_EQ(status(verdict), 0);
  EXPECT_EQ(verdict.headers.get("Access-Control-Allow-Origin"), "app://obsidian.md");
  EXPECT_EQ(verdict.headers.get("Vary"), "Origin");
  for (const char* name : {"X-Request-Id", "X-Billow-Context", "Retry-After", "request-id"})
    EXPECT_TRUE(verdict.headers.has_token("Access-Control-Expose-Headers", name)) << name;
}

TEST(Cors, StarAllowsAllOrigins) {
  const Headers headers{{"Host", "localhost"}, {"Origin", "http://anybody.example"}};
  const Verdict verdict = ask(Method::kPost, headers, BindKind::kLoopback, "http://x.example, *");
  EXPECT_EQ(verdict.headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(verdict.headers.find("Vary"), nullptr);
  const Verdict preflight = ask(Method::kOptions, headers, BindKind::kLoopback, "*");
  ASSERT_EQ(status(preflight), 204);
  EXPECT_EQ(preflight.answer->headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(preflight.answer->headers.find("Vary"), nullptr);
}

TEST(HostCheck, AcceptsNamesOfThisMachine) {
  for (const char* host : {"",
                           "localhost",
                           "LOCALHOST:11434",
                           "127.0.0.1",
                           "127.9.9.9:80",
                           "[::1]:11434",
                           "::1",
                           "10.0.0.1",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1:1",
                           "0.0.0.0",
                           "[::]",
                           "fd00::1",
                           "[fd12::1]:80",
                           "203.0.113.7:80",
                           "[fe80::1234]",
                           "[fe80::1234%eth0]:80",
                           "workbench",
                           "Workbench:80",
                           "a.localhost",
                           "x.local",
                           "host.docker.internal",
                           "[::ffff:127.0.0.1]"}) {
    EXPECT_TRUE(is_local_host(host, machine())) << host;
  }
}

TEST(HostCheck, RefusesNamesOfOtherMachines) {
  for (const char* host : {"example.com",
                           "localhost.evil.example",
                           "evillocalhost",
                           "8.8.8.8",
                           "172.32.0.1",
                           "172.15.0.1",
                           "203.0.113.8",
                           "[2001:db8::1]",
                           "workbench.evil",
                           "local",
                           "internal",
                           "192.169.0.1",
                           "127.0.0.1.evil.example",
                           "[fe80::1235]",
                           "[",
                           "[::1",
                           "0x7f000001",
                           "[::1]evil.com",
                           "[::1].evil.com:80",
                           "192.168.0.9%x.evil.com",
                           "127.0.0.1%evil.com",
                           "localhost@evil.com",
                           "localhost:80:80",
                           "::1%evil.com"}) {
    EXPECT_FALSE(is_local_host(host, machine())) << host;
  }
}

TEST(HostCheck, AppliesOnlyToLoopbackAddresses) {
  const Headers foreign{{"Host", "evil.example"}};
  const Verdict verdict = ask(Method::kGet, foreign);
  EXPECT_EQ(status(verdict), 403);
  EXPECT_NE(verdict.refusal.find("\"evil.example\""), std::string::npos);
  EXPECT_EQ(status(ask(Method::kGet, foreign, BindKind::kNetwork)), 0);
  EXPECT_EQ(status(ask(Method::kGet, foreign, BindKind::kUnixSocket)), 0);
}

TEST(HostCheck, AnswersOptionsRequestsForNamesItself) {
  EXPECT_EQ(status(ask(Method::kOptions, {{"Host", "localhost:11434"}})), 204);
  EXPECT_EQ(status(ask(Method::kOptions, {{"Host", "127.0.0.1:11434"}})), 0);
  EXPECT_EQ(status(ask(Method::kOptions, {{"Host", "evil.example"}})), 403);
  EXPECT_EQ(status(ask(Method::kOptions, {{"Host", "localhost"}}, BindKind::kNetwork)), 0);
}

TEST(MachineNames, ComeFromTheSystem) {
  const MachineNames names = machine_names();
  EXPECT_FALSE(names.host_name.empty());
  EXPECT_TRUE(is_local_host(names.host_name, names));
  for (const std::string& address : names.addresses) {
    EXPECT_TRUE(is_local_host(address, names)) << address;
  }
}

}  // namespace
}  // namespace billow::http
