// Templates and inputs that could crash, hang or fill the memory cause errors.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "prompt/chat_template.h"

namespace billow::prompt {
namespace {

constexpr TemplateLimits kSmall{
    .n_instructions = 100'000, .memory_bytes = 32 << 20, .time_ms = 10'000};

// Returns the error code, or kIo if there is no error. Nothing here throws kIo.
ErrorCode refusal(const std::string& source, const Json& input = Json::object(),
                  const TemplateLimits& limits = kSmall) {
  try {
    ChatTemplate(source, limits).render(input);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code();
  }
  return ErrorCode::kIo;
}

std::string repeat(const std::string& text, size_t n) {
  std::string result;
  for (size_t i = 0; i < n; ++i) result += text;
  return result;
}

Json nested(size_t depth) {
  Json value = 1;
  for (size_t i = 0; i < depth; ++i) value = Json::array({std::move(value)});
  return value;
}

TEST(ChatTemplateLimits, EndlessLoopsRunOutOfInstructions) {
  EXPECT_EQ(refusal("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
                    "{% endfor %}"),
            ErrorCode::kTooLarge);
}

TEST(ChatTemplateLimits, RecursionIsRefused) {
  EXPECT_EQ(refusal("{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}"),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal("{% for i in [1] recursive %}{{ loop([i]) }}{% endfor %}"),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal("{% include 'chat' %}"), ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal("{% block a %}{{ self.a() }}{% endblock %}"), ErrorCode::kInvalidInput);
}

TEST(ChatTemplateLimits, DeepSourceIsRefused) {
  EXPECT_EQ(refusal("{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}"),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal(repeat("{% if 1 %}", 50'000)), ErrorCode::kInvalidInput);
}

TEST(ChatTemplateLimits, LongTemplatesAreRefused) {
  EXPECT_EQ(refusal(std::string(kMaxTemplateBytes + 1, 'x')), ErrorCode::kTooLarge);
  EXPECT_NO_THROW(ChatTemplate(std::string(kMaxTemplateBytes, 'x')));
}

TEST(ChatTemplateLimits, InputsAreBounded) {
  EXPECT_EQ(refusal("", {{"x", nested(kMaxInputDepth)}}), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("", {{"x", nested(1'000'000)}}), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("", {{"x", std::string(kMaxInputBytes, 'x')}}), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("", {{"x", Json::array_t(kMaxInputValues)}}), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("", Json::array()), ErrorCode::kInvalidInput);
}

TEST(ChatTemplateLimits, AcceptsInputsUpToTheBounds) {
  EXPECT_EQ(ChatTemplate("{{ x }}").render({{"x", nested(kMaxInputDepth - 1)}}),
            repeat("[", kMaxInputDepth - 1) + "1" + repeat("]", kMaxInputDepth - 1));
  const std::string text(kMaxInputBytes - 1, '"');
  EXPECT_EQ(ChatTemplate("{{ x }}").render({{"x", text}}), text);
  EXPECT_EQ(ChatTemplate("{{ x | length }}").render({{"x", Json::array_t(kMaxInputValues - 1)}}),
            std::to_string(kMaxInputValues - 1));
}

TEST(ChatTemplateLimits, DeepValuesDoNotOverflowTheStackOrHang) {
  // About 400,000 nested lists: as deep as a template of 1 MiB can make them.
  const std::string level = "{%set x=" + repeat("[", 40) + "x" + repeat("]", 40) + "%}";
  const std::string deep = "{%set x=1%}" + repeat(level, 10'000);
  TemplateLimits limits;
  EXPECT_NO_THROW(ChatTemplate(deep, limits).render(Json::object()));
  EXPECT_EQ(refusal(deep + "{{x}}", Json::object(), limits), ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal(deep + "{{x|tojson}}", Json::object(), limits), ErrorCode::kInvalidInput);
  EXPECT_NO_THROW(ChatTemplate(deep + "{%set y=x~x%}", limits).render(Json::object()));
  EXPECT_NO_THROW(ChatTemplate(deep + "{{x==[x]}}", limits).render(Json::object()));
}

TEST(ChatTemplateLimits, NamespacesCannotContainThemselves) {
  EXPECT_EQ(refusal("{% set ns = namespace() %}{% set ns.x = [{'a': ns}] %}{{ ns ~ 1 }}"),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal("{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}"
                    "{% endfor %}{{ ns.x ~ 1 }}"),
            ErrorCode::kInvalidInput);
}

TEST(ChatTemplateLimits, MemoryIsBounded) {
  const std::vector<std::string> greedy{
      "{% set x = 'aaaaaaaaaaaaaaaa' %}" + repeat("{% set x = x ~ x %}", 60),
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
      "{% endfor %}",
      "{{ '%999999999d' | format(1) }}",
      "{% for i in range(100000) %}" + std::string(100'000, 'x') + "{% endfor %}",
      "{% set y %}{% for i in range(100000) %}" + std::string(100'000, 'x') +
          "{% endfor %}{% endset %}",
      "{% set l = range(100000) | list %}{{ l | join('a' * 10000) | length }}",
      "{{ [1] | batch(1000000000, 1) | list | length }}",
  };
  for (const std::string& source : greedy) {
    EXPECT_EQ(refusal(source), ErrorCode::kTooLarge) << source.substr(0, 80);
  }
}

// Returns a number of /proc/self/status, in the unit of that line.
size_t status_of(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoul(line.substr(name.size() + 1));
  return 0;
}

// Asks for so much memory in one step that the rendering has no earlier warning.
constexpr const char* kGreedy = "{{ '%999999999d' | format(1) if greedy else 'ok' }}";

TEST(ChatTemplateLimits, TooMuchMemoryFailsOnlyThatRendering) {
  const ChatTemplate chat(kGreedy, kSmall);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(chat.render({{"greedy", false}}), "ok");
    try {
      chat.render({{"greedy", true}});
      ADD_FAILURE() << "rendered";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
      EXPECT_STREQ(error.what(), "chat template: the template needs too much memory");
    }
  }
  EXPECT_EQ(chat.render({{"greedy", false}}), "ok");
}

TEST(ChatTemplateLimits, FailedRenderingsLeakNoMemoryAndNoThreads) {
  const ChatTemplate chat(kGreedy, kSmall);
  // Some megabytes in small pieces, which the rendering holds when it fails.
  const Json held = Json::array_t(60'000, std::string(150, 'x'));
  EXPECT_THROW(chat.render({{"greedy", true}, {"held", held}}), Error);
  const size_t n_threads = status_of("Threads");
  const size_t n_kib = status_of("VmRSS");
  for (int i = 0; i < 60; ++i) EXPECT_THROW(chat.render({{"greedy", true}, {"held", held}}), Error);
  for (int i = 0; i < 60'000 && status_of("Threads") > n_threads;
       ++i)  // a thread takes time to end
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(status_of("Threads"), n_threads);
  EXPECT_LT(status_of("VmRSS"), n_kib + (400 << 10))
      << "leaks of all renderings would be more than 600 MiB";
}

TEST(ChatTemplateLimits, RenderingsContinueWhileAnotherRunsOutOfMemory) {
  const ChatTemplate chat(kGreedy, kSmall);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&chat, t] {
      for (int i = 0; i < 50; ++i) {
        const bool is_greedy = (i + t) % 2 == 0;
        try {
          EXPECT_EQ(chat.render({{"greedy", is_greedy}}), "ok");
          EXPECT_FALSE(is_greedy);
        } catch (const Error& error) {
          EXPECT_TRUE(is_greedy) << error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Limits the writable memory of this process. Systems without overcommitment count it in the same
// way.
class WritableLimit {
 public:
  explicit WritableLimit(size_t more_bytes) {
    ::getrlimit(RLIMIT_DATA, &old_);
    rlimit low = old_;
    low.rlim_cur = status_of("VmData") * 1024 + more_bytes;
    ::setrlimit(RLIMIT_DATA, &low);
  }
  ~WritableLimit() { ::setrlimit(RLIMIT_DATA, &old_); }
  WritableLimit(const WritableLimit&) = delete;
  WritableLimit& operator=(const WritableLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(ChatTemplateLimits, RenderingsWaitIfMemoryFitsOnlyOneStack) {
  const ChatTemplate chat("{% for i in range(5000) %}{{ i }}{% endfor %}", kSmall);
  const std::string text = chat.render(Json::object());
  constexpr size_t kMiB = size_t{1} << 20;
  const WritableLimit limit(900 * kMiB);  // a stack is 512 MiB
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(chat.render(Json::object()), text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatTemplateLimits, NoRoomForAStackIsOutOfMemory) {
  const WritableLimit limit(size_t{100} << 20);
  EXPECT_EQ(refusal("x"), ErrorCode::kOutOfMemory);
}

TEST(ChatTemplateLimits, TimeIsBounded) {
  TemplateLimits limits;
  limits.time_ms = 200;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal("{% set x = 'a' * 9000000 %}{% for i in range(90000) %}{% set y = x.upper() %}"
                    "{% endfor %}",
                    Json::object(), limits),
            ErrorCode::kTooLarge);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace billow::prompt
