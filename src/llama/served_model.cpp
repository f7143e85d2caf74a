#include "llama/served_model.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/saturating.h"
#include "engine/embed/batcher.h"
#include "engine/pooling.h"
#include "http/sse.h"
#include "llama/answer_tracker.h"
#include "llama/wire.h"
#include "runner/protocol.h"
#include "runner/response.h"

namespace billow::llama {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLines = "application/x-ndjson";
constexpr size_t kMaxEventBytes = size_t{16} << 20;
// llama-server reports progress after each batch of a prompt.
constexpr std::chrono::milliseconds kStretchTimeout = std::chrono::minutes(10);

// Sends the lines of an answer to the server. The first line also sends the head.
class Lines {
 public:
  explicit Lines(http::Exchange& exchange) : exchange_(exchange) {}

  // Returns false if the reader has disconnected.
  bool write(const std::string& line) {
    if (line.empty()) return true;
    const bool reaches =
        has_begun_ ? exchange_.write(line) : exchange_.begin_stream(200, kLines, {}, line);
    has_begun_ = true;
    return reaches;
  }
  void finish(const std::string& line) {
    if (has_begun_) {
      exchange_.finish(line);
    } else {
      exchange_.respond({.status = 200, .content_type = kLines, .headers = {}, .body = line});
    }
  }
  bool has_begun() const { return has_begun_; }

 private:
  http::Exchange& exchange_;
  bool has_begun_ = false;
};

bool is_empty(const runner::Chunk& piece) {
  return piece.text.empty() && piece.sampled.empty() && piece.events.empty() &&
         piece.prefill.empty();
}

// Writes one answer, from its request to its end.
class Writer {
 public:
  Writer(Host& host, const tokenizer::Tokenizer& tokenizer, AnswerTracker& tracker,
         std::stop_token stop, Lines& lines)
      : host_(host),
        tokenizer_(tokenizer),
        tracker_(tracker),
        stop_(std::move(stop)),
        lines_(lines) {}
  ~Writer() {
    if (n_cells_ > 0) host_.give_back(n_cells_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Throws Error. If the request cannot begin, throws before the first line.
  void run() {
    reserve();
    while (!tracker_.ended() && !is_stopped()) {
      write_stretch();
      if (!tracker_.ended() && !is_stopped()) go_on();
    }
  }

 private:
  bool is_stopped() const { return stop_.stop_requested() || is_gone_; }

  void show(const runner::Chunk& piece) {
    if (!is_empty(piece) && !lines_.write(runner::piece_line(piece, tokenizer_))) is_gone_ = true;
  }

  Host::Reserved reserve() {
    const Host::Reserved reserved = host_.reserve(n_cells_, tracker_.n_cells(), stop_);
    if (reserved.is_granted) n_cells_ = tracker_.n_cells();
    return reserved;
  }

  void write_stretch() {
    const std::unique_ptr<Host::Writing> writing = host_.write(stop_);
    http::Client client(host_.endpoint(), {.idle_timeout = kStretchTimeout});
    const std::stop_callback cancel(stop_, [&client] { client.cancel(); });
    http::SseReader events(kMaxEventBytes);
    bool has_ended = false;
    std::string refusal;
    try {
      const http::Response answer =
          client.send({.method = http::Method::kPost,
                       .target = "/completion",
                       .headers = {{"Content-Type", "application/json"}},
                       .body = stretch_body(tracker_.stretch(host_.media_marker())),
                       .on_body = [&](const http::Response& head, std::string_view piece) {
                         if (head.status != 200) {
                           if (refusal.size() < kMaxEventBytes) refusal += piece;
                           return true;
                         }
                         events.feed(piece, [&](const http::SseEvent& event) {
                           if (has_ended || event.data == "[DONE]") return;
                           StretchEvent parsed = parse_event(event.data);
                           has_ended = parsed.end.has_value();
                           show(tracker_.take(std::move(parsed)));
                         });
                         return !tracker_.breaks_off() && !is_stopped();
                       }});
      const std::optional<size_t> length = length_in_error(refusal);
      if (length && tracker_.learn_length(*length)) return;
      if (answer.status != 200)
        throw Error(answer.status == 400 ? ErrorCode::kInvalidInput : ErrorCode::kIo,
                    "llama-server refused: " + error_text(refusal));
    } catch (const Error&) {
      if (is_stopped()) return;
      throw;
    }
    if (!has_ended && !tracker_.breaks_off() && !is_stopped())
      throw Error(ErrorCode::kIo, "llama-server stopped in the middle of an answer");
  }

  // Prepares the next stretch. Without memory for it, compacts the context or ends the answer.
  void go_on() {
    const Clock::time_point begin = Clock::now();
    context::Decision decision = tracker_.next();
    bool restarted = false;
    if (decision.step == context::Step::kGrow) {
      const size_t n_wanted = tracker_.n_cells() - tracker_.rung() + decision.rung;
      const Host::Reserved reserved = host_.reserve(n_cells_, n_wanted, stop_);
      restarted = reserved.restarted;
      if (reserved.is_granted)
        n_cells_ = n_wanted;
      else
        decision = tracker_.without_growth();
    }
    show(tracker_.apply(decision, Clock::now() - begin, restarted));
  }

  Host& host_;
  const tokenizer::Tokenizer& tokenizer_;
  AnswerTracker& tracker_;
  const std::stop_token stop_;
  Lines& lines_;
  size_t n_cells_ = 0;
  bool is_gone_ = false;
};

class Counted {
 public:
  explicit Counted(std::atomic<size_t>& n) : n_(n) { ++n_; }
  ~Counted() { --n_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<size_t>& n_;
};

Pool pool_of(const Facts& facts, const ServedOptions& options) {
  constexpr size_t kSpare = 8;  // cells per answer
  const uint64_t max = saturating_multiply(options.facts.n_parallel, facts.max_context + kSpare);
  return Pool(facts.memory, static_cast<size_t>(max),
              {.bytes = options.budget_bytes, .version = 0});
}

}  // namespace

ServedLlama::ServedLlama(const ServedOptions& options)
    : ServedLlama(options, gguf::File::open(options.host.command.model)) {}

ServedLlama::ServedLlama(const ServedOptions& options, const gguf::File& file)
    : facts_(facts_of(file, options.facts, options.projector ? &*options.projector : nullptr)),
      tokenizer_(tokenizer::Tokenizer::load(file)),
      n_parallel_(options.facts.n_parallel) {
  HostOptions host = options.host;
  host.command.n_parallel = n_parallel_;
  host.command.n_batch = facts_.n_batch;
  host.command.kv_type = options.facts.kv_type;
  host.command.is_embedding = !facts_.pooling.empty();
  host.command.pooling = facts_.pooling;
  if (options.projector) host.unlogged_bytes = options.projector->weight_bytes;
  takes_images_ = options.projector && options.projector->pictures;
  host_ = std::make_unique<Host>(std::move(host), pool_of(facts_, options));
}

void ServedLlama::add_state(Json& health) const {
  const HostState state = host_->state();
  health["engine"] = "llama";
  health["llama_pid"] = state.pid;
  health["running"] = n_running_.load();
  health["waiting"] = state.n_waiting;
  health["max_context"] = facts_.max_context;
  health["isa"] = "llama.cpp";
  health["memory"] = {
      {"held", state.held_bytes}, {"cells", state.n_cells}, {"starts", state.n_starts}};
  health["budget_version"] = state.budget_version;
  health["gpu"] = state.gpu_bytes;
  health["held"] = state.held_bytes;
  health["cached"] = state.idle_bytes;
  health["wanted"] = state.wanted_bytes;
  health["asking"] = state.is_asking;
}

void ServedLlama::complete(http::Exchange& exchange) {
  if (!facts_.pooling.empty()) throw Error(ErrorCode::kUnsupported, "this model only embeds");
  runner::AnswerRequest request = runner::parse_completion(exchange.request().body);
  if (!request.images.empty() && !takes_images_)
    throw Error(ErrorCode::kUnsupported,
                "this model has no projector, so it does not accept images");
  // After the first request with a salt, requests without one must not read its text.
  if (request.options.salt != 0) has_salted_ = true;
  if (has_salted_ && request.options.salt == 0) request.options.salt = 1;
  AnswerTracker tracker(std::move(request), tokenizer_, facts_.max_context);
  const Counted counted(n_running_);
  std::stop_source stop;
  exchange.on_client_gone([stop]() mutable { stop.request_stop(); });
  Lines lines(exchange);
  try {
    Writer writer(*host_, tokenizer_, tracker, stop.get_token(), lines);
    writer.run();
  } catch (const Error& error) {
    if (!lines.has_begun()) throw;
    lines.finish(runner::error_line(error.what()));
    return;
  }
  std::string last;
  const runner::Chunk rest = tracker.finish();
  if (!rest.text.empty() || !rest.sampled.empty()) last = runner::piece_line(rest, tokenizer_);
  lines.finish(last + runner::end_line(tracker.end()));
}

void ServedLlama::embed(http::Exchange& exchange) {
  if (facts_.pooling.empty())
    throw Error(
        ErrorCode::kUnsupported,
        "embeddings are not available: this model runs on llama-server, which embeds only with "
        "embedding models");
  const engine::EmbedRequest request = runner::parse_embed(exchange.request().body);
  std::vector<std::vector<int32_t>> texts;
  size_t n_cells = 0;
  for (const engine::EmbedText& text : request.texts) {
    if (text.n_first > 0)
      throw Error(ErrorCode::kUnsupported, "this model does not take pairs of texts");
    if (text.pooling && engine::pooling_name(*text.pooling) != facts_.pooling)
      throw Error(ErrorCode::kUnsupported, "this model pools by \"" + facts_.pooling + "\"");
    n_cells = std::max(n_cells, text.tokens.size());
    texts.push_back(text.tokens);
  }
  const Counted counted(n_running_);
  std::stop_source stop;
  exchange.on_client_gone([stop]() mutable { stop.request_stop(); });
  const Clock::time_point begin = Clock::now();
  runner::Vectors vectors;
  host_->reserve(0, n_cells, stop.get_token());
  const struct Returned {
    Host& host;
    size_t n;
    ~Returned() { host.give_back(n); }
  } returned{*host_, n_cells};
  const std::unique_ptr<Host::Writing> writing = host_->write(stop.get_token());
  for (const std::vector<int32_t>& text : texts) {
    http::Client client(host_->endpoint(), {.idle_timeout = kStretchTimeout});
    const std::stop_callback cancel(stop.get_token(), [&client] { client.cancel(); });
    const http::Response answer = client.send({.method = http::Method::kPost,
                                               .target = "/embedding",
                                               .headers = {{"Content-Type", "application/json"}},
                                               .body = embedding_body({&text, 1})});
    if (answer.status != 200)
      throw Error(ErrorCode::kIo, "llama-server refused: " + error_text(answer.body));
    const std::vector<std::vector<float>> found = parse_embeddings(answer.body, 1);
    vectors.size = found.front().size();
    vectors.n += 1;
    vectors.values.insert(vectors.values.end(), found.front().begin(), found.front().end());
  }
  vectors.time = Clock::now() - begin;
  exchange.respond({.status = 200,
                    .content_type = "application/octet-stream",
                    .headers = {},
                    .body = runner::embed_answer(vectors)});
}

}  // namespace billow::llama
