#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "metrics/process.h"

namespace billow::metrics {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A strict parser of Prometheus' text format. Series are found by name and labels as printed, with
// labels in printed order.
class Scrape {
 public:
  explicit Scrape(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      line(text.substr(at, end - at));
      at = end + 1;
    }
  }

  double value(const std::string& series) const {
    const auto found = values_.find(series);
    if (found != values_.end()) return found->second;
    ADD_FAILURE() << "no series " << series;
    return NAN;
  }
  bool has(const std::string& series) const { return values_.contains(series); }
  // Returns the number of series with this name.
  size_t count(const std::string& name) const { return n_.contains(name) ? n_.at(name) : 0; }
  double sum(const std::string& name) const {
    double sum = 0.0;
    for (const auto& [series, value] : values_) {
      if (series == name || series.starts_with(name + "{")) sum += value;
    }
    return sum;
  }
  std::string type(const std::string& name) const {
    return types_.contains(name) ? types_.at(name) : "";
  }
  // Returns the values of one label, unescaped.
  std::set<std::string> label_values(const std::string& label) const {
    const auto found = label_values_.find(label);
    return found == label_values_.end() ? std::set<std::string>() : found->second;
  }
  size_t n_series() const { return values_.size(); }

 private:
  static bool is_name(const std::string& name) {
    return !name.empty() && name.find_first_not_of(
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
                                "UVWXYZ0123456789_:") == name.npos;
  }

  void line(const std::string& line) {
    if (line.starts_with("# TYPE ")) {
      const size_t blank = line.find(' ', 7);
      ASSERT_NE(blank, line.npos) << line;
      const std::string name = line.substr(7, blank - 7);
      EXPECT_TRUE(types_.emplace(name, line.substr(blank + 1)).second) << "duplicate: " << line;
      EXPECT_EQ(count(name), 0u) << "after its series: " << line;
      return;
    }
    if (line.starts_with("# HELP ")) return;
    size_t at = std::min(line.find('{'), line.find(' '));
    ASSERT_NE(at, line.npos) << line;
    const std::string name = line.substr(0, at);
    EXPECT_TRUE(is_name(name)) << line;
    if (line[at] == '{') labels(line, ++at);
    ASSERT_EQ(line[at], ' ') << line;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + at + 1, &end);
    EXPECT_EQ(*end, '\0') << line;
    EXPECT_TRUE(values_.emplace(line.substr(0, at), value).second) << "duplicate: " << line;
    ++n_[name];
    bool is_typed = types_.contains(name);
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      if (name.ends_with(suffix)) {
        is_typed |= type(name.substr(0, name.size() - std::string(suffix).size())) == "histogram";
      }
    }
    EXPECT_TRUE(is_typed) << line;
  }

  void labels(const std::string& line, size_t& at) {
    while (line[at] != '}') {
      const size_t equals = line.find("=\"", at);
      ASSERT_NE(equals, line.npos) << line;
      const std::string label = line.substr(at, equals - at);
      EXPECT_TRUE(is_name(label)) << line;
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        ++at;
        ASSERT_LT(at, line.size());
        EXPECT_NE(std::string("\\\"n").find(line[at]), std::string::npos) << line;
        value += line[at] == 'n' ? '\n' : line[at];
      }
      label_values_[label].insert(value);
      ASSERT_LT(++at, line.size()) << line;
      if (line[at] == ',') ++at;
    }
    ++at;
  }

  std::map<std::string, double> values_;
  std::map<std::string, size_t> n_;
  std::map<std::string, std::string> types_;
  std::map<std::string, std::set<std::string>> label_values_;
};

Load busy_load() {
  Load load;
  load.n_waiting = 5;
  load.n_running = 3;
  load.backlog_seconds = 1.5;
  load.busy_ratio = 0.75;
  load.kv_used_ratio = 0.5;
  load.kv_cached_ratio = 0.25;
  load.n_kv_blocks = 1000;
  load.embed_pending_tokens = 4096;
  load.ready = true;
  load.n_max_models = 3;
  load.models = {{.name = "a:1b",
                  .aliases = {"a"},
                  .is_loaded = true,
                  .n_running = 3,
                  .n_waiting = 1,
                  .held_bytes = 1 << 20},
                 {.name = "b:1b", .n_waiting = 3}};
  return load;
}

TEST(Metrics, ReportLoadPerModelAndTheRestWithoutModel) {
  const Metrics metrics("1.2.3", "avx2");
  const Scrape scrape(metrics.text(busy_load(), false));
  EXPECT_EQ(scrape.value("billow_build_info{version=\"1.2.3\",isa=\"avx2\"}"), 1.0);
  EXPECT_EQ(scrape.value("billow_requests_waiting{model=\"a:1b\"}"), 1.0);
  EXPECT_EQ(scrape.value("billow_requests_waiting{model=\"b:1b\"}"), 3.0);
  EXPECT_EQ(scrape.value("billow_requests_waiting{model=\"\"}"), 1.0);
  EXPECT_EQ(scrape.sum("billow_requests_waiting"), 5.0);
  EXPECT_EQ(scrape.sum("billow_requests_running"), 3.0);
  EXPECT_EQ(scrape.value("billow_backlog_seconds"), 1.5);
  EXPECT_EQ(scrape.value("billow_busy_ratio"), 0.75);
  EXPECT_EQ(scrape.value("billow_embed_pending_tokens"), 4096.0);
  EXPECT_EQ(scrape.value("billow_kv_used_ratio"), 0.5);
  EXPECT_EQ(scrape.value("billow_kv_cached_ratio"), 0.25);
  EXPECT_EQ(scrape.value("billow_ready"), 1.0);
  EXPECT_EQ(scrape.value("billow_draining"), 0.0);
  EXPECT_EQ(scrape.value("billow_model_loaded{model=\"a:1b\"}"), 1.0);
  EXPECT_EQ(scrape.value("billow_model_loaded{model=\"b:1b\"}"), 0.0);
  EXPECT_EQ(scrape.value("billow_model_held_bytes{model=\"a:1b\"}"), 1048576.0);
  EXPECT_EQ(scrape.type("billow_requests_waiting"), "gauge");
  EXPECT_EQ(scrape.count("vllm:num_requests_waiting"), 0u);
}

TEST(Metrics, ReportRunnerFiguresPerModel) {
  const Metrics metrics("1", "scalar");
  Load load = busy_load();
  Histogram histogram({1, 2});
  for (const double value : {0.5, 1.5, 1.6, 9.0}) histogram.observe(value);
  for (Load::ModelLoad& model : load.models)
    model.figures = {
        {.name = "x_total", .help = "X.", .kind = Figure::Kind::kCounter, .value = 7},
        {.name = "y_seconds", .help = "", .kind = Figure::Kind::kHistogram, .histogram = histogram},
        {.name = "z_total",
         .help = "",
         .kind = Figure::Kind::kCounter,
         .value = 2,
         .label = "reason",
         .label_value = "full"}};
  const Scrape scrape(metrics.text(load, false));
  EXPECT_EQ(scrape.type("x_total"), "counter");
  EXPECT_EQ(scrape.value("x_total{model=\"a:1b\"}"), 7.0);
  EXPECT_EQ(scrape.value("x_total{model=\"b:1b\"}"), 7.0);
  EXPECT_EQ(scrape.value("z_total{model=\"b:1b\",reason=\"full\"}"), 2.0);
  EXPECT_EQ(scrape.type("y_seconds"), "histogram");
  EXPECT_EQ(scrape.value("y_seconds_bucket{model=\"a:1b\",le=\"1\"}"), 1.0);
  EXPECT_EQ(scrape.value("y_seconds_bucket{model=\"a:1b\",le=\"2\"}"), 3.0);
  EXPECT_EQ(scrape.value("y_seconds_bucket{model=\"a:1b\",le=\"+Inf\"}"), 4.0);
  EXPECT_EQ(scrape.value("y_seconds_count{model=\"a:1b\"}"), 4.0);
  EXPECT_NEAR(scrape.value("y_seconds_sum{model=\"a:1b\"}"), 12.6, 1e-9);
}

TEST(Metrics, AddUpRunnersWithTheSameName) {
  const auto runner = [](bool is_loaded, double value) {
    Histogram histogram({1, 2});
    histogram.observe(value);
    return Load::ModelLoad{
        .name = "a:1b",
        .aliases = {"a"},
        .is_loaded = is_loaded,
        .n_running = 1,
        .n_waiting = 2,
        .held_bytes = 3,
        .figures = {
            {.name = "x_total", .help = "", .value = value},
            {.name = "x_percent", .help = "", .value = value},
            {.name = "y", .help = "", .value = 1, .label = "l", .label_value = "one"},
            {.name = "y", .help = "", .value = value, .label = "l", .label_value = "two"},
            {.name = "h", .help = "", .kind = Figure::Kind::kHistogram, .histogram = histogram}}};
  };
  Load load;
  load.n_running = 2;
  load.n_waiting = 4;
  add_model(load, runner(false, 0.5));
  add_model(load, {.name = "b:1b"});
  add_model(load, runner(true, 2.0));
  const Metrics metrics("1", "scalar");
  const std::string text = metrics.text(load, true);
  EXPECT_NE(text.find("running_lora_adapters=\"a:1b,a\""), std::string::npos) << text;
  const Scrape scrape(text);
  EXPECT_EQ(scrape.count("billow_model_loaded"), 2u);
  EXPECT_EQ(scrape.value("billow_model_loaded{model=\"a:1b\"}"), 1.0);
  EXPECT_EQ(scrape.value("billow_model_held_bytes{model=\"a:1b\"}"), 6.0);
  EXPECT_EQ(scrape.value("billow_requests_running{model=\"a:1b\"}"), 2.0);
  EXPECT_EQ(scrape.value("billow_requests_waiting{model=\"a:1b\"}"), 4.0);
  EXPECT_EQ(scrape.count("x_total"), 1u);
  EXPECT_EQ(scrape.value("x_total{model=\"a:1b\"}"), 2.5);
  EXPECT_EQ(scrape.value("x_percent{model=\"a:1b\"}"), 2.0);
  EXPECT_EQ(scrape.value("y{model=\"a:1b\",l=\"one\"}"), 2.0);
  EXPECT_EQ(scrape.value("y{model=\"a:1b\",l=\"two\"}"), 2.5);
  EXPECT_EQ(scrape.value("h_bucket{model=\"a:1b\",le=\"1\"}"), 1.0);
  EXPECT_EQ(scrape.value("h_bucket{model=\"a:1b\",le=\"2\"}"), 2.0);
  EXPECT_EQ(scrape.value("h_sum{model=\"a:1b\"}"), 2.5);
}

TEST(Metrics, CountRequestsPerModelRouteAndCode) {
  Metrics metrics("1", "scalar");
  for (int i = 0; i < 3; ++i) metrics.request("m", "/api/chat", 200, milliseconds(30));
  metrics.request("m", "/api/chat", 503, milliseconds(1));
  metrics.request("", "", 404, milliseconds(1));
  metrics.request("m", "/api/chat", 12345, milliseconds(1));
  const Scrape scrape(metrics.text({}, false));
  EXPECT_EQ(scrape.type("billow_requests_total"), "counter");
  EXPECT_EQ(scrape.value("billow_requests_total{code=\"200\",model=\"m\",route=\"/api/chat\"}"),
            3.0);
  EXPECT_EQ(scrape.value("billow_requests_total{code=\"503\",model=\"m\",route=\"/api/chat\"}"),
            1.0);
  EXPECT_EQ(scrape.value("billow_requests_total{code=\"other\",model=\"m\",route=\"/api/chat\"}"),
            1.0);
  EXPECT_EQ(scrape.value("billow_requests_total{code=\"404\",model=\"\",route=\"\"}"), 1.0);
  EXPECT_EQ(scrape.value("billow_request_seconds_count{model=\"m\",route=\"/api/chat\"}"), 5.0);
}

TEST(Metrics, TimesAreInCumulativeBuckets) {
  Metrics metrics("1", "scalar");
  metrics.first_token("m", "/api/chat", milliseconds(5));
  metrics.first_token("m", "/api/chat", milliseconds(70));
  metrics.first_token("m", "/api/chat", seconds(61));
  metrics.queued("m", "/api/chat", seconds(600));
  const Scrape scrape(metrics.text({}, false));
  const auto bucket = [&](const std::string& name, const std::string& le) {
    return scrape.value(name + "_bucket{model=\"m\",route=\"/api/chat\",le=\"" + le + "\"}");
  };
  const std::string name = "billow_time_to_first_token_seconds";
  EXPECT_EQ(scrape.type(name), "histogram");
  EXPECT_EQ(bucket(name, "0.005"), 1.0);
  EXPECT_EQ(bucket(name, "0.1"), 2.0);
  EXPECT_EQ(bucket(name, "60"), 2.0);
  EXPECT_EQ(bucket(name, "+Inf"), 3.0);
  EXPECT_NEAR(scrape.value(name + "_sum{model=\"m\",route=\"/api/chat\"}"), 61.075, 1e-9);
  metrics.tokenized("m", std::chrono::microseconds(300));
  const Scrape later(metrics.text({}, false));
  EXPECT_EQ(later.value("billow_tokenize_seconds_bucket{model=\"m\",le=\"0.0002\"}"), 0.0);
  EXPECT_EQ(later.value("billow_tokenize_seconds_bucket{model=\"m\",le=\"0.0005\"}"), 1.0);
  EXPECT_EQ(bucket("billow_queue_seconds", "300"), 0.0);
  EXPECT_EQ(bucket("billow_queue_seconds", "600"), 1.0);
}

TEST(Metrics, CountTokensAndLoads) {
  Metrics metrics("1", "scalar");
  metrics.tokens("m", {100, 64, 10, 8, 5});
  metrics.tokens("n", {10, 0, 1});
  metrics.model_load("m", "request");
  metrics.model_load("m", "request");
  metrics.model_load("m", "crash");
  const Scrape scrape(metrics.text({}, false));
  EXPECT_EQ(scrape.value("billow_prompt_tokens_total{model=\"m\"}"), 100.0);
  EXPECT_EQ(scrape.value("billow_prompt_cached_tokens_total{model=\"m\"}"), 64.0);
  EXPECT_EQ(scrape.value("billow_generated_tokens_total{model=\"m\"}"), 10.0);
  EXPECT_EQ(scrape.value("billow_drafted_tokens_total{model=\"m\"}"), 8.0);
  EXPECT_EQ(scrape.value("billow_draft_accepted_tokens_total{model=\"m\"}"), 5.0);
  EXPECT_EQ(scrape.value("billow_model_loads_total{model=\"m\",reason=\"request\"}"), 2.0);
  EXPECT_EQ(scrape.value("billow_model_loads_total{model=\"m\",reason=\"crash\"}"), 1.0);
  const Scrape totals(metrics.load_text({}, false));
  EXPECT_EQ(totals.value("billow_prompt_tokens_total"), 110.0);
  EXPECT_EQ(totals.value("billow_prompt_cached_tokens_total"), 64.0);
}

TEST(Metrics, LoadTextHasFewSeriesAndNoModels) {
  Metrics metrics("1", "scalar");
  for (int i = 0; i < 100; ++i) metrics.tokens(std::to_string(i), {1, 1, 1});
  const Scrape scrape(metrics.load_text(busy_load(), true));
  EXPECT_LE(scrape.n_series(), 20u);
  EXPECT_TRUE(scrape.label_values("model").empty());
  for (const char* name :
       {"billow_requests_waiting", "billow_requests_running", "billow_backlog_seconds",
        "billow_busy_ratio", "billow_embed_pending_tokens", "billow_kv_used_ratio",
        "billow_kv_cached_ratio", "billow_ready", "billow_draining"}) {
    EXPECT_EQ(scrape.count(name), 1u) << name;
    EXPECT_TRUE(scrape.has(name)) << name;
    EXPECT_EQ(scrape.type(name), "gauge") << name;
  }
  EXPECT_EQ(scrape.value("billow_requests_waiting"), 5.0);
}

TEST(Metrics, OfferVllmNames) {
  const Metrics metrics("1", "scalar");
  for (const std::string& text :
       {metrics.load_text(busy_load(), true), metrics.text(busy_load(), true)}) {
    const Scrape scrape(text);
    EXPECT_EQ(scrape.value("vllm:num_requests_waiting"), 5.0);
    EXPECT_EQ(scrape.value("vllm:num_requests_running"), 3.0);
    EXPECT_EQ(scrape.value("vllm:kv_cache_usage_perc"), 0.5);
    EXPECT_EQ(scrape.value("vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"1000\"}"),
              1.0);
    // Two of three places are taken: max_lora is the three names plus one free place.
    EXPECT_GT(scrape.value("vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a:1b,a\""
                           ",waiting_lora_adapters=\"b:1b\"}"),
              1e9);
    EXPECT_EQ(scrape.type("vllm:num_requests_waiting"), "gauge");
  }
  const Scrape empty(metrics.load_text({}, true));
  EXPECT_TRUE(
      empty.has("vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"\","
                "waiting_lora_adapters=\"\"}"));
}

TEST(Metrics, LabelsAreEscapedAndValidUtf8) {
  Metrics metrics("1\"\\\n", "scalar");
  metrics.tokens("a\"b\\c\nd", {1, 0, 0});
  metrics.tokens("\xFF", {1, 0, 0});
  Load load;
  load.models = {{.name = "x\"y\nz", .is_loaded = true}};
  const Scrape scrape(metrics.text(load, true));
  const std::set<std::string> models = scrape.label_values("model");
  EXPECT_TRUE(models.contains("a\"b\\c\nd"));
  EXPECT_TRUE(models.contains("\xEF\xBF\xBD"));
  EXPECT_TRUE(models.contains("x\"y\nz"));
  EXPECT_TRUE(scrape.label_values("version").contains("1\"\\\n"));
}

TEST(Metrics, BoundTheNumberOfLabelValues) {
  Metrics metrics("1", "scalar");
  for (size_t i = 0; i < 3 * kMaxLabelValues; ++i) {
    const std::string name = "model " + std::to_string(i);
    metrics.tokens(name, {1, 0, 0});
    metrics.request(name, "/api/chat", 200, milliseconds(1));
  }
  metrics.tokens("model 0", {1, 0, 0});
  const Scrape scrape(metrics.text({}, false));
  EXPECT_EQ(scrape.count("billow_prompt_tokens_total"), kMaxLabelValues + 1);
  EXPECT_EQ(scrape.value("billow_prompt_tokens_total{model=\"other\"}"), 2.0 * kMaxLabelValues);
  EXPECT_EQ(scrape.value("billow_prompt_tokens_total{model=\"model 0\"}"), 2.0);
  EXPECT_EQ(scrape.count("billow_requests_total"), kMaxLabelValues + 1);
}

TEST(Metrics, ReportTheProcess) {
  const Scrape scrape(Metrics("1", "scalar").text({}, false));
  EXPECT_GT(scrape.value("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(scrape.value("process_open_fds"), 1.0);
  EXPECT_GE(scrape.value("process_cpu_seconds_total"), 0.0);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(scrape.value("process_start_time_seconds"), now, 3600.0);
}

TEST(Metrics, LoseNoCountsOfManyThreads) {
  Metrics metrics("1", "scalar");
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&metrics, i] {
      const std::string name = "own " + std::to_string(i);
      for (int k = 0; k < kEach; ++k) {
        metrics.request("m", "/api/chat", 200, milliseconds(k));
        metrics.first_token(name, "/api/chat", milliseconds(k));
        metrics.queued("m", "/api/chat", milliseconds(k));
        metrics.tokens("m", {10, 5, 1});
        metrics.model_load(name, "request");
        if (k % 100 == 0) {
          const Scrape scrape(metrics.text({}, true));
          EXPECT_LE(scrape.sum("billow_requests_total"), kThreads * kEach);
          EXPECT_FALSE(metrics.load_text({}, true).empty());
        }
      }
    });
  }
  threads.clear();
  const Scrape scrape(metrics.text({}, false));
  EXPECT_EQ(scrape.sum("billow_requests_total"), kThreads * kEach);
  EXPECT_EQ(scrape.sum("billow_request_seconds_count"), kThreads * kEach);
  EXPECT_EQ(scrape.sum("billow_time_to_first_token_seconds_count"), kThreads * kEach);
  EXPECT_EQ(scrape.count("billow_time_to_first_token_seconds_count"), size_t{kThreads});
  EXPECT_EQ(scrape.sum("billow_queue_seconds_count"), kThreads * kEach);
  EXPECT_EQ(scrape.value("billow_prompt_tokens_total{model=\"m\"}"), 10.0 * kThreads * kEach);
  EXPECT_EQ(scrape.sum("billow_model_loads_total"), kThreads * kEach);
}

}  // namespace
}  // namespace billow::metrics
