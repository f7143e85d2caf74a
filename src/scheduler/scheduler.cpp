#include "scheduler/scheduler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "http/status.h"
#include "scheduler/strand.h"

namespace billow::scheduler {
namespace {

// Returns the tokens that a complete answer cost.
uint64_t work_of(const CompletionEnd& end) {
  return end.n_prompt - std::min(end.n_prompt, end.n_cached) + end.n_generated;
}

// About how many tokens a call has cost so far. It counts if the call ends early.
class Spent {
 public:
  void add(const CompletionPiece& piece) {
    for (const Prefill& part : piece.prefill) n_prompt_ = std::max(n_prompt_, part.n_done);
    if (!piece.prefill.empty()) prompted_at_ = Clock::now();
    n_bytes_ += piece.text.size();
  }
  // Of a streamed call.
  uint64_t n_tokens() const { return n_prompt_ + n_bytes_ / kBytesPerToken; }
  // Of a call whose text comes as a whole. Nobody has seen the text yet, so that time counts.
  uint64_t n_tokens_by_time() const {
    const std::chrono::duration<double> written = Clock::now() - prompted_at_;
    return n_prompt_ + static_cast<uint64_t>(written.count() * kTokensPerSecond);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kBytesPerToken = 4;
  static constexpr double kTokensPerSecond = 20.0;
  size_t n_prompt_ = 0;
  size_t n_bytes_ = 0;
  Clock::time_point prompted_at_ = Clock::now();
};

class StrandLease final : public Lease {
 public:
  StrandLease(std::shared_ptr<Strand> strand, std::shared_ptr<Strand::Ticket> ticket,
              std::stop_token stop, OnStage on_stage)
      : strand_(std::move(strand)),
        ticket_(std::move(ticket)),
        stop_(std::move(stop)),
        on_stage_(std::move(on_stage)) {}
  ~StrandLease() override { strand_->leave(*ticket_); }

  CompletionEnd complete(const Completion& request, const OnPiece& on_piece) override {
    return on_a_runner<CompletionEnd>([&](Runner& runner, RunnerWatch& watch) {
      bool is_replaced = false;
      Spent spent;
      const auto spent_tokens = [&] {
        return request.may_begin_again ? std::min(spent.n_tokens_by_time(), ticket_->job.work)
                                       : spent.n_tokens();
      };
      CompletionEnd end = complete_on(
          runner, request,
          [&](CompletionPiece piece) {
            if (piece.is_asking) watch.ask_soon();
            spent.add(piece);
            const bool is_seen =
                !request.may_begin_again && (!piece.text.empty() || !piece.logprobs.empty());
            is_replaced = is_seen && !strand_->may_stream(*ticket_, watch);
            return !is_replaced && on_piece(std::move(piece));
          },
          spent_tokens);
      if (is_replaced) throw RunnerGone("the runner has ended");
      return end;
    });
  }

  EmbedOutputs embed(const EmbedJob& job) override {
    return on_a_runner<EmbedOutputs>([&](Runner& runner, RunnerWatch&) {
      // The expected work is exact: the tokens of all texts.
      try {
        EmbedOutputs outputs = runner.embed(job, stop_);
        strand_->set_work(*ticket_, ticket_->job.work);
        return outputs;
      } catch (const Cancelled&) {
        strand_->set_work(*ticket_, ticket_->job.work);
        throw;
      }
    });
  }

 private:
  // Makes the call and sets its work. `spent_tokens` returns the work of a call that ends early.
  CompletionEnd complete_on(Runner& runner, const Completion& request, const OnPiece& on_piece,
                            const std::function<uint64_t()>& spent_tokens) const {
    try {
      CompletionEnd end = runner.complete(request, on_piece, stop_);
      strand_->set_work(*ticket_, end.done_reason.empty() ? spent_tokens() : work_of(end));
      return end;
    } catch (...) {
      strand_->set_work(*ticket_, spent_tokens());
      throw;
    }
  }

  // Makes the call. If a runner fails, retries on other runners until the planner ends the request.
  template <typename Result, typename Call>
  Result on_a_runner(const Call& call) {
    for (;;) {
      const std::shared_ptr<RunnerWatch> watch = strand_->watch_of(*ticket_);
      const std::shared_ptr<Runner> runner = watch ? watch->runner() : nullptr;
      std::string what = "the runner has ended";
      try {
        if (runner) {
          watch->send_budget();
          Result result = call(*runner, *watch);
          strand_->end_call(*ticket_);
          return result;
        }
      } catch (const RunnerGone& gone) {
        what = gone.what();
      } catch (const RunnerBusy&) {
        throw;
      } catch (const http::StatusError& error) {
        // A server error means that the runner itself may be broken.
        if (error.status() < kServerError) throw;
        what = error.what();
      }
      strand_->recover(*ticket_, watch, what, stop_, on_stage_);
    }
  }

  const std::shared_ptr<Strand> strand_;
  const std::shared_ptr<Strand::Ticket> ticket_;
  const std::stop_token stop_;
  const OnStage on_stage_;
};

}  // namespace

Scheduler::Scheduler(const Options& options, StartRunner start, OnNews on_news)
    : strand_(std::make_shared<Strand>(options, std::move(start), std::move(on_news))) {}

Scheduler::~Scheduler() { strand_->close(); }

std::unique_ptr<Lease> Scheduler::acquire(const Job& job, std::stop_token stop,
                                          const OnStage& on_stage) {
  const std::shared_ptr<Strand> strand =
      strand_;  // the scheduler may be destroyed while this waits
  std::shared_ptr<Strand::Ticket> ticket = strand->arrive(job, stop, on_stage);
  return std::make_unique<StrandLease>(strand, std::move(ticket), std::move(stop), on_stage);
}

void Scheduler::set_keep_alive(const std::string& key, Duration keep_alive) {
  strand_->set_keep_alive(key, keep_alive);
}

std::vector<Prefix> Scheduler::prefixes(const std::string& key, std::string_view root,
                                        size_t n_max) const {
  const std::shared_ptr<RunnerWatch> watch = strand_->watch_of(key);
  const std::shared_ptr<Runner> runner = watch ? watch->runner() : nullptr;
  try {
    return runner ? runner->prefixes(root, n_max) : std::vector<Prefix>{};
  } catch (const std::runtime_error& error) {  // the runner has ended or still loads
    log::debug(key + ": cannot get prefixes: " + error.what());
    return {};
  }
}

std::optional<TextKv> Scheduler::do_with_text(const std::string& key, TextAction action,
                                              const CachedText& text) const {
  const std::shared_ptr<RunnerWatch> watch = strand_->watch_of(key);
  const std::shared_ptr<Runner> runner = watch ? watch->runner() : nullptr;
  if (!runner) return std::nullopt;
  try {
    return runner->do_with_text(action, text);
  } catch (const http::StatusError& error) {
    if (error.status() != 503) throw;  // 503: the runner still loads
    return std::nullopt;
  } catch (const std::runtime_error& error) {
    log::debug(key + ": " + error.what());
    return std::nullopt;
  }
}

void Scheduler::stop(const std::string& key) { strand_->stop(key); }

bool Scheduler::drain(std::chrono::milliseconds timeout) { return strand_->drain(timeout); }

SchedulerState Scheduler::state() const { return strand_->state(); }

}  // namespace billow::scheduler
