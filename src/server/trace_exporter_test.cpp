#include "server/trace_exporter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>

#include "base/error.h"
#include "base/json.h"

namespace billow::server {
namespace {

using std::chrono::milliseconds;

// A collector that a test controls.
class FakeCollector {
 public:
  SendTraces sender() {
    return [this](const std::string& body, std::stop_token stop) { return take(body, stop); };
  }
  // Sets what each request gets. The function may throw.
  void answer_with(std::function<CollectorReply()> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // Requests wait until release() or a stop.
  void hold() { is_held_ = true; }
  void release() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }
  std::vector<std::string> names() const {  // of all spans that were taken
    const std::lock_guard lock(mutex_);
    return names_;
  }
  size_t n_requests() const { return n_requests_; }

 private:
  CollectorReply take(const std::string& body, std::stop_token stop) {
    ++n_requests_;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [this] { return !is_held_; });
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "stopped");
    CollectorReply reply = answer_();
    if (reply.status == 200) {
      const Json json = Json::parse(body);
      for (const Json& span : json["resourceSpans"][0]["scopeSpans"][0]["spans"])
        names_.push_back(span["name"].get<std::string>());
    }
    return reply;
  }

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<CollectorReply()> answer_ = [] { return CollectorReply{.status = 200}; };
  std::atomic<bool> is_held_ = false;
  std::atomic<size_t> n_requests_ = 0;
  std::vector<std::string> names_;
};

std::shared_ptr<metrics::Trace> finished(const std::string& model, const char* parent = "") {
  auto trace = std::make_shared<metrics::Trace>("id", "/api/chat", "node");
  trace->set_model(model);
  trace->set_parent(parent);
  trace->finish(200);
  return trace;
}

bool becomes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 6000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

ExportLimits quick() {
  return {.delay = milliseconds(5),
          .min_pause = milliseconds(5),
          .max_pause = milliseconds(20),
          .give_up = milliseconds(600'000),
          .flush_time = milliseconds(60'000)};
}

class TraceExporterTest : public testing::Test {
 protected:
  void start(const ExportLimits& limits) {
    exporter_.emplace(metrics::OtlpResource{.version = "1", .host = "h"}, "collector",
                      collector_.sender(), limits);
  }
  FakeCollector collector_;
  std::optional<TraceExporter> exporter_;
};

TEST_F(TraceExporterTest, SendsTracesInBatches) {
  ExportLimits limits = quick();
  limits.delay = milliseconds(600'000);
  limits.batch_spans = 3;
  start(limits);
  for (const char* model : {"a", "b", "c"}) exporter_->take(finished(model));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_sent == 3; }));
  EXPECT_EQ(collector_.names(), (std::vector<std::string>{"chat a", "chat b", "chat c"}));
  EXPECT_EQ(collector_.n_requests(), 1u);
}

TEST_F(TraceExporterTest, SendsOnlyWhatClientsWantRecorded) {
  start(quick());
  exporter_->take(finished("no", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
  exporter_->take(finished("yes", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_sent == 1; }));
  EXPECT_EQ(collector_.names(), std::vector<std::string>{"chat yes"});
}

TEST_F(TraceExporterTest, RetriesWhatMayBeRetried) {
  int n = 0;
  collector_.answer_with([&n]() -> CollectorReply {
    constexpr int kStatuses[] = {503, 429, 502, 504};
    const int at = n++;
    if (at < 4) return {.status = kStatuses[at], .retry_after = std::chrono::seconds(0)};
    if (at == 4) throw Error(ErrorCode::kIo, "connection refused");
    return {.status = 200};
  });
  start(quick());
  exporter_->take(finished("a"));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_sent == 1; }));
  EXPECT_EQ(collector_.n_requests(), 6u);
  EXPECT_EQ(collector_.names().size(), 1u);
}

TEST_F(TraceExporterTest, WaitsAsLongAsTheCollectorAsks) {
  std::atomic<int> n = 0;
  std::chrono::steady_clock::time_point first;
  std::chrono::steady_clock::time_point second;
  collector_.answer_with([&]() -> CollectorReply {
    if (n++ == 0) {
      first = std::chrono::steady_clock::now();
      return {.status = 429, .retry_after = std::chrono::seconds(1)};
    }
    second = std::chrono::steady_clock::now();
    return {.status = 200};
  });
  start(quick());
  exporter_->take(finished("a"));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_sent == 1; }));
  EXPECT_GE(second - first, std::chrono::seconds(1));
}

TEST_F(TraceExporterTest, LosesWhatTheCollectorRefuses) {
  collector_.answer_with([] { return CollectorReply{.status = 400}; });
  start(quick());
  exporter_->take(finished("a"));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_lost_refused == 1; }));
  EXPECT_EQ(collector_.n_requests(), 1u);
  collector_.answer_with([] {
    return CollectorReply{.status = 200, .body = R"({"partialSuccess":{"rejectedSpans":"1"}})"};
  });
  exporter_->take(finished("b"));
  ASSERT_TRUE(becomes_true([&] { return exporter_->counts().n_lost_refused == 2; }));
  EXPECT_EQ(exporter_->counts().n_sent, 0u);
}

TEST_F(TraceExporterTest, GivesABatchUpAfterAWhile) {
  collector_.answer_with([]() -> CollectorReply { throw Error(ErrorCode::kIo, "refused"); });
  ExportLimits limits = quick();
  limits.give_up = milliseconds(30);
  start(limits);
  exporter_->take(finished("a"));
  EXPECT_TRUE(becomes_true([&] { return exporter_->counts().n_lost_unsent == 1; }));
}

TEST_F(TraceExporterTest, TheQueueIsBounded) {
  collector_.hold();
  ExportLimits limits = quick();
  limits.max_traces = 10;
  limits.batch_spans = 1;
  start(limits);
  for (int i = 0; i < 100; ++i) exporter_->take(finished("a"));  // returns although nobody reads
  EXPECT_GE(exporter_->counts().n_lost_full, 89u);               // one may be in flight
  collector_.release();
  exporter_.reset();
  EXPECT_GE(collector_.names().size(), 10u);
}

TEST_F(TraceExporterTest, LargeTracesCountByTheirSpans) {
  collector_.hold();
  ExportLimits limits = quick();
  limits.delay = milliseconds(600'000);
  limits.max_spans = 250;
  limits.batch_spans = 1000;
  start(limits);
  const auto large = std::make_shared<metrics::Trace>("id", "/api/chat", "node");
  const auto now = metrics::Clock::now();
  large->span("span", now, now + milliseconds(1));
  for (int i = 0; i < 98; ++i) large->mark("moment");
  large->finish(200);
  for (int i = 0; i < 3; ++i) exporter_->take(large);
  EXPECT_EQ(exporter_->counts().n_lost_full, 2u) << "a collector does not count moments";
  collector_.release();
  exporter_.reset();
  EXPECT_EQ(collector_.names().size(), 4u) << "and of each other trace";
}

TEST_F(TraceExporterTest, SendsTheRestAtTheEnd) {
  ExportLimits limits = quick();
  limits.delay = milliseconds(600'000);
  start(limits);
  for (const char* model : {"a", "b"}) exporter_->take(finished(model));
  exporter_.reset();
  EXPECT_EQ(collector_.names().size(), 2u);
}

TEST_F(TraceExporterTest, TheEndReportsAllLostSpans) {
  collector_.answer_with([]() -> CollectorReply { throw Error(ErrorCode::kIo, "refused"); });
  ExportLimits limits = quick();
  limits.batch_spans = 1;
  testing::internal::CaptureStderr();
  start(limits);
  exporter_->take(finished("a"));
  const bool is_tried = becomes_true([&] { return collector_.n_requests() > 1; });
  exporter_->take(finished("b"));
  exporter_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(is_tried);
  EXPECT_NE(log.find("collector takes no traces: refused"), std::string::npos) << log;
  EXPECT_NE(log.find("collector: 2 spans were not sent before the end"), std::string::npos) << log;
}

TEST_F(TraceExporterTest, TheEndDoesNotWaitForACollectorThatHangs) {
  collector_.hold();
  ExportLimits limits = quick();
  limits.flush_time = milliseconds(50);
  start(limits);
  exporter_->take(finished("a"));
  ASSERT_TRUE(becomes_true([&] { return collector_.n_requests() == 1; }));
  exporter_.reset();  // the test would not end otherwise
  EXPECT_EQ(collector_.names().size(), 0u);
}

TEST_F(TraceExporterTest, TheEndDoesNotWaitForAPause) {
  collector_.answer_with(
      [] { return CollectorReply{.status = 503, .retry_after = std::chrono::seconds(100'000)}; });
  start(quick());
  exporter_->take(finished("a"));
  ASSERT_TRUE(becomes_true([&] { return collector_.n_requests() == 1; }));
  collector_.answer_with([] { return CollectorReply{.status = 200}; });
  exporter_.reset();
  EXPECT_EQ(collector_.names().size(), 1u) << "one attempt remains";
}

TEST(CollectorUrl, GetsThePathOfTraces) {
  EXPECT_EQ(traces_url("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
  EXPECT_EQ(traces_url("https://example.com/otlp/"), "https://example.com/otlp/v1/traces");
  EXPECT_EQ(traces_url("http://h/v1/traces"), "http://h/v1/traces");
  for (const char* wrong :
       {"127.0.0.1:4318", "ftp://h", "http://", "http://user@h", "http://h?a=b"})
    EXPECT_THROW(traces_url(wrong), Error) << wrong;
}

TEST(CollectorHeaders, HaveTheFormOfOpenTelemetry) {
  const http::Headers headers = collector_headers("Authorization=Bearer%20a%3Db, x-team = blue ,");
  EXPECT_EQ(headers.get("authorization"), "Bearer a=b");
  EXPECT_EQ(headers.get("x-team"), "blue");
  for (const char* wrong : {"secret", "=a", "a=%0a", "a=%zz"}) {
    try {
      collector_headers(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace billow::server
