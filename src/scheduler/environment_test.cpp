#include "scheduler/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace billow::scheduler {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Variables = std::map<std::string, std::string>;

struct Read {
  Environment environment;
  std::vector<std::string> warnings;
};

Read read(Variables variables) {
  Read result;
  const Lookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  result.environment =
      read_environment(lookup, [&](const std::string& text) { result.warnings.push_back(text); });
  return result;
}

Environment of(const std::string& name, const std::string& value) {
  const Read result = read({{name, value}});
  EXPECT_TRUE(result.warnings.empty()) << name << "=" << value;
  return result.environment;
}

TEST(Environment, HasDefaults) {
  const Environment none = read({{"HOME", "/home/me"}}).environment;
  EXPECT_EQ(none.host.url(), "http://127.0.0.1:11434");
  EXPECT_EQ(none.models, "/home/me/.ollama/models");
  EXPECT_EQ(none.keep_alive, minutes(5));
  EXPECT_EQ(none.load_timeout, minutes(5));
  EXPECT_EQ(none.n_parallel, 0u);
  EXPECT_EQ(none.n_max_loaded, 0u);
  EXPECT_EQ(none.n_max_queue, 512u);
  EXPECT_EQ(none.context_length, 0u);
  EXPECT_EQ(none.flash_attention, std::nullopt);
  EXPECT_EQ(none.kv_cache_type, "f16");
  EXPECT_EQ(none.debug, DebugLevel::kOff);
  EXPECT_EQ(none.remotes, (std::vector<std::string>{"ollama.com"}));
  EXPECT_EQ(none.go_template, std::nullopt);
  EXPECT_EQ(none.n_transfer_streams, std::nullopt);
  EXPECT_EQ(none.cloud_base_url, "https://ollama.com:443");
  EXPECT_EQ(of("OLLAMA_MAX_QUEUE", "").n_max_queue, 512u);
  EXPECT_EQ(of("HOME", "").models, "") << "not a folder below /";
  EXPECT_EQ(read({}).environment.models, "");
  EXPECT_EQ(of("OLLAMA_MAX_QUEUE", " \"\" ").n_max_queue, 512u);
}

TEST(Environment, ReadsEachRow) {
  EXPECT_EQ(of("OLLAMA_HOST", "10.0.0.1").host.host, "10.0.0.1");
  EXPECT_EQ(of("OLLAMA_MODELS", "/data/my models").models, "/data/my models");
  EXPECT_EQ(of("OLLAMA_KEEP_ALIVE", "1h").keep_alive, minutes(60));
  EXPECT_EQ(of("OLLAMA_LOAD_TIMEOUT", "30s").load_timeout, seconds(30));
  EXPECT_EQ(of("OLLAMA_NUM_PARALLEL", "4").n_parallel, 4u);
  EXPECT_EQ(of("BILLOW_N_BATCH", "512").n_batch, 512u);
  EXPECT_EQ(of("BILLOW_STREAM_INTERVAL", "0").stream_interval, 0u);
  EXPECT_EQ(of("BILLOW_DRAFT_MAX", "8").max_draft, 8u);
  EXPECT_EQ(of("BILLOW_MAX_PASS_TIME", "50").max_pass_time, 50u);
  EXPECT_EQ(of("BILLOW_ENGINE", "llama").engine, Engine::kLlama);
  EXPECT_EQ(of("BILLOW_LLAMA_SERVER", "/opt/llama-server").llama_server, "/opt/llama-server");
  EXPECT_EQ(of("BILLOW_N_UBATCH", "256").n_ubatch, 256u);
  EXPECT_EQ(of("BILLOW_N_SEQ_MAX", "8").n_seq_max, 8u);
  EXPECT_EQ(of("BILLOW_CONTEXT_SIZE", "4096").context_size, 4096u);
  EXPECT_EQ(of("BILLOW_MAX_BATCHES", "2").max_batches, 2u);
  EXPECT_EQ(of("OLLAMA_MAX_LOADED_MODELS", "2").n_max_loaded, 2u);
  EXPECT_EQ(of("OLLAMA_MAX_QUEUE", "7").n_max_queue, 7u);
  EXPECT_EQ(of("OLLAMA_CONTEXT_LENGTH", "8192").context_length, 8192u);
  EXPECT_EQ(of("OLLAMA_FLASH_ATTENTION", "0").flash_attention, false);
  EXPECT_EQ(of("OLLAMA_FLASH_ATTENTION", "1").flash_attention, true);
  EXPECT_EQ(of("OLLAMA_KV_CACHE_TYPE", "q8_0").kv_cache_type, "q8_0");
  EXPECT_EQ(of("OLLAMA_GPU_OVERHEAD", "1000").gpu_overhead_bytes, 1000u);
  EXPECT_TRUE(of("OLLAMA_SCHED_SPREAD", "1").spread);
  EXPECT_EQ(of("OLLAMA_ORIGINS", "http://a, app://b,,").origins,
            (std::vector<std::string>{"http://a", "app://b"}));
  EXPECT_TRUE(of("OLLAMA_DEBUG_LOG_REQUESTS", "true").log_requests);
  EXPECT_TRUE(of("OLLAMA_NOHISTORY", "t").no_history);
  EXPECT_TRUE(of("OLLAMA_NOPRUNE", "T").no_prune);
  EXPECT_TRUE(of("OLLAMA_NO_CLOUD", "TRUE").no_cloud);
  EXPECT_EQ(of("OLLAMA_REMOTES", "a.com,b.com").remotes,
            (std::vector<std::string>{"a.com", "b.com"}));
  EXPECT_EQ(of("OLLAMA_GO_TEMPLATE", "0").go_template, false);
  EXPECT_EQ(of("OLLAMA_EDITOR", "vi").editor, "vi");
  EXPECT_TRUE(of("OLLAMA_AUTH", "1").auth);
  EXPECT_EQ(of("OLLAMA_LLM_LIBRARY", "cpu").llm_library, "cpu");
  EXPECT_TRUE(of("OLLAMA_VULKAN", "1").vulkan);
  EXPECT_TRUE(of("OLLAMA_IGPU_ENABLE", "1").igpu);
  EXPECT_EQ(of("OLLAMA_MAX_TRANSFER_STREAMS", "9").n_transfer_streams, 9u);
  EXPECT_EQ(of("OLLAMA_CLOUD_BASE_URL", "http://x").cloud_base_url, "http://x");
}

TEST(Environment, BillowNamesOverrideOllamaNames) {
  EXPECT_EQ(of("BILLOW_MAX_QUEUE", "9").n_max_queue, 9u);
  const Variables both = {{"BILLOW_MAX_QUEUE", "9"}, {"OLLAMA_MAX_QUEUE", "7"}};
  EXPECT_EQ(read(both).environment.n_max_queue, 9u);
  const Variables empty = {{"BILLOW_MAX_QUEUE", " "}, {"OLLAMA_MAX_QUEUE", "7"}};
  EXPECT_EQ(read(empty).environment.n_max_queue, 7u);
}

TEST(Environment, DropsBlanksAndQuotes) {
  for (const char* value : {"7", " 7 ", "\"7\"", " '7' ", "\t7\n"})
    EXPECT_EQ(of("OLLAMA_MAX_QUEUE", value).n_max_queue, 7u) << value;
}

TEST(Environment, WarnsAboutBadNumbersAndKeepsTheDefault) {
  for (const char* value : {"x", "-1", "1.5", "7 apples", "99999999999999999999999"}) {
    const Read result = read({{"OLLAMA_MAX_QUEUE", value}});
    EXPECT_EQ(result.environment.n_max_queue, 512u) << value;
    ASSERT_EQ(result.warnings.size(), 1u) << value;
    EXPECT_EQ(result.warnings[0], "OLLAMA_MAX_QUEUE='" + std::string(value) +
                                      "' is not a valid count; the default is used");
  }
  const Read result = read({{"BILLOW_KV_CACHE_TYPE", "q3"}, {"OLLAMA_KEEP_ALIVE", "soon"}});
  EXPECT_EQ(result.environment.kv_cache_type, "f16");
  EXPECT_EQ(result.environment.keep_alive, minutes(5));
  EXPECT_EQ(result.warnings.size(), 2u);
}

TEST(Environment, OtherFlagValuesMeanYes) {
  for (const char* value : {"1", "t", "T", "true", "TRUE", "True", "yes", "off", "2"})
    EXPECT_TRUE(of("OLLAMA_NO_CLOUD", value).no_cloud) << value;
  for (const char* value : {"0", "f", "F", "false", "FALSE", "False", ""})
    EXPECT_FALSE(of("OLLAMA_NO_CLOUD", value).no_cloud) << value;
}

TEST(Environment, ReadsDurations) {
  const std::pair<const char*, Duration> cases[] = {
      {"5m", minutes(5)},     {"42", seconds(42)},
      {"0", Duration(0)},     {"-1", kForever},
      {"-1s", kForever},      {"0s", Duration(0)},
      {"1h30m", minutes(90)}, {"9223372036854775807", kForever}};
  for (const auto& [value, duration] : cases)
    EXPECT_EQ(of("OLLAMA_KEEP_ALIVE", value).keep_alive, duration) << value;
  for (const char* value : {"0", "-1", "0s", "-5m"})
    EXPECT_EQ(of("OLLAMA_LOAD_TIMEOUT", value).load_timeout, kForever) << value;
  EXPECT_EQ(of("OLLAMA_LOAD_TIMEOUT", "42").load_timeout, seconds(42));
}

TEST(Environment, ReadsDebugLevel) {
  const std::pair<const char*, DebugLevel> cases[] = {
      {"0", DebugLevel::kOff},      {"false", DebugLevel::kOff}, {"1", DebugLevel::kDebug},
      {"true", DebugLevel::kDebug}, {"2", DebugLevel::kTrace},   {"yes", DebugLevel::kDebug}};
  for (const auto& [value, level] : cases) EXPECT_EQ(of("OLLAMA_DEBUG", value).debug, level);
}

TEST(Environment, ReadsHosts) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.2.3.4", "http://1.2.3.4:11434"},
      {":1234", "http://:1234"},
      {"1.2.3.4:1234", "http://1.2.3.4:1234"},
      {"0.0.0.0", "http://0.0.0.0:11434"},
      {"http://1.2.3.4", "http://1.2.3.4:80"},
      {"http://1.2.3.4:1234", "http://1.2.3.4:1234"},
      {"https://1.2.3.4", "https://1.2.3.4:443"},
      {"https://1.2.3.4:1234", "https://1.2.3.4:1234"},
      {"example.com", "http://example.com:11434"},
      {"example.com:1234", "http://example.com:1234"},
      {"https://example.com/a/b", "https://example.com:443/a/b"},
      {"example.com:1/a", "http://example.com:1/a"},
      {"example.com/", "http://example.com:11434"},
      {"1.2.3.4:0", "http://1.2.3.4:0"},
      {"::1", "http://[::1]:11434"},
      {"[::1]", "http://[::1]:11434"},
      {"[::1]:1337", "http://[::1]:1337"},
      {"::", "http://[::]:11434"},
      {"[0001:002:003:0004::1]", "http://[1:2:3:4::1]:11434"},
      {"[0001:002:003:0004::1]:1337", "http://[1:2:3:4::1]:1337"},
      {" 1.2.3.4 ", "http://1.2.3.4:11434"},
      {"\"1.2.3.4\"", "http://1.2.3.4:11434"},
      {"'1.2.3.4'", "http://1.2.3.4:11434"},
      {"ollama.com", "https://ollama.com:443"},
      {"https://ollama.com", "https://ollama.com:443"}};
  for (const auto& [value, url] : cases) EXPECT_EQ(of("OLLAMA_HOST", value).host.url(), url);
}

TEST(Environment, BadPortBecomesTheDefault) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.2.3.4:66000", "http://1.2.3.4:11434"},
      {"1.2.3.4:-1", "http://1.2.3.4:11434"},
      {"1.2.3.4:x", "http://1.2.3.4:11434"},
      {"1.2.3.4:", "http://1.2.3.4:11434"},
      {"https://1.2.3.4:66000", "https://1.2.3.4:443"}};
  for (const auto& [value, url] : cases) {
    const Read result = read({{"OLLAMA_HOST", value}});
    EXPECT_EQ(result.environment.host.url(), url) << value;
    EXPECT_EQ(result.warnings.size(), 1u) << value;
  }
}

TEST(Environment, ClientsUseLoopbackForAllInterfaces) {
  const std::pair<const char*, const char*> cases[] = {{":1234", "http://127.0.0.1:1234"},
                                                       {"0.0.0.0", "http://127.0.0.1:11434"},
                                                       {"[::]:80", "http://[::1]:80"},
                                                       {"10.1.1.1", "http://10.1.1.1:11434"}};
  for (const auto& [value, url] : cases)
    EXPECT_EQ(of("OLLAMA_HOST", value).host.for_clients().url(), url);
}

TEST(Environment, IgnoresUnknownEngine) {
  const Read result = read({{"BILLOW_ENGINE", "vllm"}});
  EXPECT_EQ(result.environment.engine, Engine::kAuto);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("auto, billow or llama"), std::string::npos);
}

TEST(Environment, ProvidesPlannerOptions) {
  const Environment environment = read({{"OLLAMA_NUM_PARALLEL", "0"},
                                        {"OLLAMA_MAX_LOADED_MODELS", "2"},
                                        {"OLLAMA_MAX_QUEUE", "3"},
                                        {"OLLAMA_KEEP_ALIVE", "-1"},
                                        {"OLLAMA_LOAD_TIMEOUT", "9s"}})
                                      .environment;
  const Options options = planner_options(environment, 77);
  EXPECT_EQ(options.budget_bytes, 77u);
  EXPECT_EQ(options.n_parallel, kAutoParallel);
  EXPECT_EQ(options.n_max_loaded, 2u);
  EXPECT_EQ(options.n_max_queue, 3u);
  EXPECT_EQ(options.keep_alive, kForever);
  EXPECT_EQ(options.load_timeout, seconds(9));
}

}  // namespace
}  // namespace billow::scheduler
