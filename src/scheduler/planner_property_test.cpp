// Runs the planner in a simulated world. The world performs actions late, in any order in which
// messages between processes can arrive. Loads fail, runners die, clients disconnect, and some
// requests kill every runner that they run on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "scheduler/planner.h"

namespace billow::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Trial {
  unsigned seed = 0;
  bool deaths = false;    // runners die at random
  bool failures = false;  // loads fail
  bool crowded = false;   // the largest model needs nearly all of the budget
  bool poison = false;    // some requests kill their runners; no other deaths
  bool tenants = false;   // requests of three tenants
  bool bulk = false;      // half of the requests are bulk
};

struct Kind {  // of a model
  std::string key;
  bool is_embedding = false;
  ModelCost cost;                   // without a request
  uint64_t bytes_per_position = 1;  // of KV
};

// A runner process: its ledger, and its messages in flight.
struct Runner {
  Phase phase = Phase::kLoading;
  uint64_t budget = 0;
  uint64_t version = 0;
  uint64_t fixed = 0;
  bool has_scratch = false;  // allocated with the first request and kept
  uint64_t cached = 0;
  uint64_t wanted = 0;
  RequestId asker = 0;  // the request that is paused for `more`; 0: none
  uint64_t more = 0;
  std::map<RequestId, uint64_t> in_use;  // bytes of each running request
  std::set<RequestId> streamed;
  std::deque<Budget> inbox;
  std::deque<MemoryReport> outbox;

  uint64_t held() const {
    uint64_t bytes = fixed + cached;
    for (const auto& [id, used] : in_use) bytes += used;
    return bytes;
  }
  void report() { outbox.push_back({version, held(), cached, wanted, asker != 0}); }
  // Takes memory if the budget allows it after dropping cached memory.
  bool try_grow(uint64_t& used, uint64_t bytes) {
    const uint64_t left = budget - std::min(budget, held());
    wanted = bytes - std::min(bytes, left + cached);
    if (wanted > 0) return false;
    cached -= bytes - std::min(bytes, left);
    used += bytes;
    return true;
  }
  void drop_cached() {
    const uint64_t over = held() - std::min(held(), budget);
    cached -= std::min(cached, over);
  }
};

class World {
 public:
  explicit World(const Trial& trial)
      : trial_(trial),
        random_(trial.seed),
        planner_(options_of(trial)),
        n_parallel_(1 + trial.seed % 3) {
    for (size_t i = 0; i < 7; ++i) {
      const uint64_t weights = trial.crowded && i == 0 ? 850 : 50 + 60 * i;
      kinds_.push_back({"model-" + std::to_string(i), i >= 5, {weights, 5 * i, 0}, 1 + i % 2});
    }
  }

  void live(int n_steps) {
    for (int step = 0; step < n_steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      step_once();
      check();
    }
  }

  // Runs the world without new requests and failures. Expects that every request ends.
  void wind_down() {
    is_winding_down_ = true;
    for (int round = 0; round < 5000 && !requests_.empty(); ++round) {
      if (testing::Test::HasFailure()) return;
      for (const std::string& key : keys_of_runners()) act_of_runner(key);
      now_ += milliseconds(100);
      wake();
      check();
    }
    EXPECT_TRUE(requests_.empty()) << requests_.size() << " requests never end";
    if (trial_.seed % 2 == 0) {
      do_actions(planner_.drain(now_));
      for (const std::string& key : keys_of_runners()) act_of_runner(key);
      for (const std::string& key : keys_of_runners()) act_of_runner(key);
      EXPECT_TRUE(planner_.is_drained());
    }
  }

  size_t n_answered() const { return n_answered_; }

 private:
  struct Known {
    std::string key;
    Turn turn{};
    bool is_running = false;
    uint64_t digest = 0;
    size_t n_deaths = 0;  // deaths of runners during this request
    std::string tenant{};
  };

  static Options options_of(const Trial& trial) {
    Options options;
    options.budget_bytes = 1000;
    options.n_parallel = 1 + trial.seed % 3;
    options.n_parallel_embedding = 4;
    options.n_max_loaded = trial.seed % 4;
    options.n_max_queue = 40;
    options.keep_alive = seconds(3);
    options.load_timeout = seconds(20);
    options.restarts.pause = seconds(5);
    options.restarts.window = kWindow;
    // Crashes of a model never block it. A request fails only after deaths of its own runner.
    if (trial.poison) options.restarts.n_limit = 1'000'000;
    return options;
  }

  static constexpr Duration kWindow = seconds(10);
  static constexpr uint64_t kSoundDigest = 1000;
  static bool is_poison(uint64_t digest) { return digest < kSoundDigest; }

  uint64_t below(uint64_t n) { return random_() % n; }
  bool once_in(uint64_t n) { return below(n) == 0; }

  std::vector<std::string> keys_of_runners() const {
    std::vector<std::string> keys;
    for (const auto& [key, runner] : runners_) keys.push_back(key);
    return keys;
  }

  void step_once() {
    const uint64_t what = below(20);
    if (what < 5) arrive();
    if (what == 5) leave();
    if (what == 6) {
      now_ += milliseconds(once_in(20) ? 8000 : below(400));
      wake();
    }
    const std::string key = kinds_[below(kinds_.size())].key;
    if (what == 7 && once_in(5)) do_actions(planner_.stop(key, now_));
    if (what == 8 && once_in(3))
      do_actions(planner_.keep_alive_changed(key, seconds(below(4)), now_));
    if (what > 8 && !runners_.empty()) {
      const std::vector<std::string> keys = keys_of_runners();
      act_of_runner(keys[below(keys.size())]);
    }
  }

  void wake() {
    const std::optional<Time> at = planner_.wakes_at();
    if (!at || *at > now_) return;
    do_actions(planner_.time_passed(now_));
    const std::optional<Time> next = planner_.wakes_at();
    EXPECT_TRUE(!next || *next > now_) << "wants another call immediately";
  }

  void arrive() {
    const Kind& kind = kinds_[below(kinds_.size())];
    ModelCost cost = kind.cost;
    cost.kv_bytes = kind.bytes_per_position * (1 + below(once_in(10) ? 600 : 60));
    Request request = {.id = ++last_id_,
                       .key = kind.key,
                       .name = kind.key,
                       .is_embedding = kind.is_embedding,
                       .cost = cost,
                       .keep_alive = std::nullopt};
    if (once_in(4)) request.keep_alive = once_in(3) ? kForever : Duration(seconds(below(5)));
    // A few prompts kill runners and are sent repeatedly. The others are unique.
    request.digest = trial_.poison && once_in(6) ? 1 + below(3) : kSoundDigest + request.id;
    if (trial_.tenants) {
      request.tenant = std::array{"", "ann", "bob"}[below(3)];
      request.work = 1 + below(1000);
      request.weight = static_cast<uint32_t>(1 + below(3));
    }
    request.is_bulk = trial_.bulk && once_in(2);
    requests_[request.id] = {
        kind.key, {request.is_bulk, next_arrival_++}, false, request.digest, 0, request.tenant};
    do_actions(planner_.request_arrived(request, now_));
  }

  void leave() {
    if (requests_.empty()) return;
    const RequestId id =
        std::next(requests_.begin(), static_cast<long>(below(requests_.size())))->first;
    end(id, false);
  }

  // Ends a request: it finishes, or its client cancels it.
  void end(RequestId id, bool is_finished) {
    const Known known = requests_.at(id);
    if (known.is_running) {
      Runner& runner = runners_.at(known.key);
      if (once_in(2)) runner.cached += runner.in_use.at(id);
      runner.in_use.erase(id);
      runner.streamed.erase(id);
      if (runner.asker == id) runner.asker = runner.wanted = 0;
      runner.report();
    }
    requests_.erase(id);
    ++n_answered_;
    const std::optional<uint64_t> n_tokens =
        trial_.tenants ? std::optional(below(2000)) : std::nullopt;
    do_actions(is_finished ? planner_.request_finished(id, now_, n_tokens)
                           : planner_.request_cancelled(id, now_));
    // A late message about the request must change nothing.
    if (once_in(10)) {
      EXPECT_TRUE(planner_.request_finished(id, now_).empty());
    }
  }

  void act_of_runner(const std::string& key) {
    const auto found = runners_.find(key);
    if (found == runners_.end()) return;
    Runner& runner = found->second;
    const bool dies = trial_.deaths && !is_winding_down_ && once_in(60);
    const bool is_poisoned =
        !is_winding_down_ && std::ranges::any_of(runner.in_use, [&](const auto& entry) {
          return is_poison(requests_.at(entry.first).digest);
        });
    if (runner.phase == Phase::kUnloading || dies || (is_poisoned && once_in(3))) return die(key);
    if (runner.phase == Phase::kLoading) return load(key, runner);
    if (!runner.inbox.empty() && (is_winding_down_ || once_in(2))) {
      const Budget budget = runner.inbox.front();
      runner.inbox.pop_front();
      runner.budget = budget.bytes;
      runner.version = budget.version;
      runner.drop_cached();
      if (runner.asker != 0) {
        const bool has_it = runner.try_grow(runner.in_use.at(runner.asker), runner.more);
        if (has_it || runner.budget + runner.wanted > budget.ceiling) runner.asker = 0;
      } else if (runner.wanted > 0 && !runner.in_use.empty()) {
        grow(runner, runner.in_use.begin()->first, runner.wanted);
      }
      runner.report();
    }
    if (!runner.outbox.empty() && (is_winding_down_ || once_in(2))) {
      const MemoryReport report = runner.outbox.front();
      runner.outbox.pop_front();
      do_actions(planner_.memory_changed(key, report, now_));
      return;
    }
    if (runner.in_use.empty()) return;
    const auto one =
        std::next(runner.in_use.begin(), static_cast<long>(below(runner.in_use.size())));
    if (one->first == runner.asker) return;  // paused
    if (once_in(3) && (is_winding_down_ || !is_poison(requests_.at(one->first).digest)))
      return end(one->first, true);
    runner.streamed.insert(one->first);
    if (runner.asker == 0) grow(runner, one->first, below(30));
  }

  void grow(Runner& runner, RequestId id, uint64_t more) {
    if (!runner.try_grow(runner.in_use.at(id), more) && once_in(2)) {
      runner.asker = id;
      runner.more = more;
    }
    runner.report();
  }

  void load(const std::string& key, Runner& runner) {
    const uint64_t what = below(8);
    const bool fails = trial_.failures && !is_winding_down_ && what < 2;
    if (fails) {
      do_actions(planner_.load_failed(key, {what == 0, "failed"}, now_));
    } else if (what < 4 && !is_winding_down_) {
      do_actions(planner_.load_progressed(key, ++n_progress_, now_));
    } else {
      runner.phase = Phase::kReady;
      do_actions(planner_.load_finished(key, runner.fixed, now_));
    }
  }

  void die(const std::string& key) {
    const Runner runner = runners_.at(key);
    std::vector<RequestId> streamed(runner.streamed.begin(), runner.streamed.end());
    dying_ = runner.in_use;
    streamed_ = runner.streamed;
    count_death(key, runner);
    runners_.erase(key);
    had_deaths_ = true;
    do_actions(planner_.runner_gone(key, {"", below(2) == 0}, streamed, now_));
    EXPECT_TRUE(dying_.empty()) << "a request on a dead runner was forgotten";
  }

  void count_death(const std::string& key, const Runner& runner) {
    std::set<uint64_t> digests;
    for (const auto& [id, used] : runner.in_use) {
      Known& known = requests_.at(id);
      digests.insert(known.digest);
      if (++known.n_deaths > 1) {
        EXPECT_EQ(runner.in_use.size(), 1u) << "a suspect runs with others";
      }
      EXPECT_LE(known.n_deaths, kMaxDeaths);
    }
    if (digests.size() < 2) return;
    for (const uint64_t digest : digests) {
      if (!is_poison(digest)) continue;
      std::deque<Time>& times = shared_deaths_[{key, digest}];
      while (!times.empty() && times.front() + kWindow <= now_) times.pop_front();
      times.push_back(now_);
      EXPECT_LE(times.size(), kMaxDeaths) << "one prompt keeps killing runners of others";
    }
  }

  // A harmless request may fail only if its own stream was cut.
  void check_answer(RequestId id, const Known& known, const std::string& text) const {
    if (!trial_.poison || is_poison(known.digest) || streamed_.contains(id)) return;
    EXPECT_FALSE(text.starts_with(kCrashText) || text == kRefusedText)
        << "failed for what another request did: " << text;
  }

  void do_actions(const Actions& actions) {
    for (const Action& action : actions) {
      if (testing::Test::HasFailure()) return;
      carry_out(action);
    }
    EXPECT_TRUE(planner_.time_passed(now_).empty()) << "an action was left";
  }

  void carry_out(const Action& action) {
    switch (action.kind) {
      case ActionKind::kStartLoad:
        return start(action);
      case ActionKind::kAssign:
        return run(action);
      case ActionKind::kRefuse:
      case ActionKind::kFail: {
        ASSERT_TRUE(requests_.contains(action.request)) << "answered twice";
        const Known& known = requests_.at(action.request);
        EXPECT_TRUE(!known.is_running || dying_.contains(action.request));
        EXPECT_TRUE(action.status >= 500 && !action.text.empty());
        check_answer(action.request, known, action.text);
        dying_.erase(action.request);
        requests_.erase(action.request);
        ++n_answered_;
        return;
      }
      case ActionKind::kRetry:
        ASSERT_TRUE(dying_.contains(action.request));
        dying_.erase(action.request);
        requests_.at(action.request).is_running = false;
        return;
      case ActionKind::kSetBudget: {
        ASSERT_TRUE(runners_.contains(action.key));
        Runner& runner = runners_.at(action.key);
        EXPECT_EQ(runner.phase, Phase::kReady);
        EXPECT_GE(action.bytes, runner.fixed);
        runner.inbox.push_back({action.bytes, action.version, action.ceiling});
        // A denial must be correct: if no other model is busy or loading, the ceiling is the whole
        // budget.
        if (action.ceiling != Budget::kNoCeiling && others_are_idle(action.key)) {
          EXPECT_EQ(action.ceiling, planner_.snapshot().budget_bytes);
        }
        return;
      }
      case ActionKind::kUnload:
        ASSERT_TRUE(runners_.contains(action.key));
        EXPECT_NE(runners_.at(action.key).phase, Phase::kUnloading);
        EXPECT_TRUE(runners_.at(action.key).in_use.empty()) << "a busy runner is unloaded";
        runners_.at(action.key).phase = Phase::kUnloading;
        return;
    }
  }

  bool others_are_idle(const std::string& key) const {
    const auto is_other = [&](const auto& entry) { return entry.second.key != key; };
    const auto is_loading = [](const auto& entry) { return entry.second.phase == Phase::kLoading; };
    return std::ranges::none_of(requests_, is_other) && std::ranges::none_of(runners_, is_loading);
  }

  void start(const Action& action) {
    ASSERT_FALSE(runners_.contains(action.key));
    for (const auto& [key, runner] : runners_)
      EXPECT_NE(runner.phase, Phase::kLoading) << "two load at a time";
    if (!had_deaths_) {
      for (const auto& [id, known] : requests_) {
        if (!runners_.contains(known.key)) {
          EXPECT_LE(first_waiting(action.key), known.turn) << "a load out of order";
        }
      }
    }
    Runner& runner = runners_[action.key];
    runner.budget = action.bytes;
    runner.version = action.version;
    for (const Kind& kind : kinds_)
      if (kind.key == action.key) runner.fixed = kind.cost.weight_bytes;
  }

  void run(const Action& action) {
    ASSERT_TRUE(requests_.contains(action.request));
    Known& known = requests_.at(action.request);
    EXPECT_FALSE(known.is_running);
    EXPECT_EQ(known.key, action.key);
    EXPECT_EQ(first_waiting(known.key, known.tenant), known.turn)
        << "overtaken by one of its model and tenant";
    if (known.turn.is_bulk) {
      for (const auto& [id, other] : requests_)
        EXPECT_TRUE(other.turn.is_bulk || other.is_running) << "a bulk request overtakes " << id;
    }
    ASSERT_TRUE(runners_.contains(action.key));
    Runner& runner = runners_.at(action.key);
    EXPECT_EQ(runner.phase, Phase::kReady);
    known.is_running = true;
    if (runner.in_use.empty() && !runner.has_scratch) {
      for (const Kind& kind : kinds_)
        if (kind.key == action.key) runner.fixed += kind.cost.scratch_bytes;
      runner.has_scratch = true;
    }
    runner.in_use[action.request] = 0;
    const bool is_embedding = action.key >= "model-5";
    EXPECT_LE(runner.in_use.size(), is_embedding ? 4 : n_parallel_);
  }

  // Returns the first waiting turn of a model: of one tenant, or of all tenants.
  Turn first_waiting(const std::string& key, const std::optional<std::string>& tenant = {}) const {
    Turn first = {true, kNoBarrier};
    for (const auto& [id, known] : requests_)
      if (known.key == key && !known.is_running && known.tenant == tenant.value_or(known.tenant))
        first = std::min(first, known.turn);
    return first;
  }

  void check() {
    const Snapshot all = planner_.snapshot();
    EXPECT_LE(all.granted_bytes, all.budget_bytes);
    uint64_t used = 0;  // max memory of the runners by the budgets that they know
    for (const auto& [key, runner] : runners_) used += std::max(runner.budget, runner.held());
    EXPECT_LE(used, all.budget_bytes);
    EXPECT_LE(used, all.granted_bytes);
    EXPECT_EQ(all.models.size(), runners_.size());
    size_t n_running = 0;
    for (const ModelSnapshot& model : all.models) {
      EXPECT_EQ(model.n_running, runners_.at(model.key).in_use.size());
      EXPECT_EQ(model.phase, runners_.at(model.key).phase);
      n_running += model.n_running;
    }
    EXPECT_EQ(n_running + all.n_waiting, requests_.size()) << "a request is lost";
  }

  Trial trial_;
  std::mt19937_64 random_;
  Planner planner_;
  size_t n_parallel_;
  std::vector<Kind> kinds_;
  std::map<std::string, Runner> runners_;
  std::map<RequestId, Known> requests_;  // without a response
  std::map<RequestId, uint64_t> dying_;  // requests that ran on the runner that just died
  std::set<RequestId> streamed_;         // of dying_
  // Per model and digest: times of deaths of runners that ran this and other requests.
  std::map<std::pair<std::string, uint64_t>, std::deque<Time>> shared_deaths_;
  RequestId last_id_ = 0;
  Arrival next_arrival_ = 0;
  uint64_t n_progress_ = 0;
  size_t n_answered_ = 0;
  bool had_deaths_ = false;
  bool is_winding_down_ = false;
  Time now_{};
};

TEST(PlannerProperty, KeepsInvariantsInAnyWorld) {
#ifdef NDEBUG
  constexpr unsigned kTrials = 200;
#else  // with sanitizers each step takes ten times as long
  constexpr unsigned kTrials = 60;
#endif
  constexpr int kSteps = 1000;
  size_t n_answered = 0;
  for (unsigned seed = 1; seed <= kTrials; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool is_poisoned = seed % 5 == 4;
    World world({.seed = seed,
                 .deaths = !is_poisoned && seed % 3 == 0,
                 .failures = seed % 5 < 3,
                 .crowded = seed % 2 == 0,
                 .poison = is_poisoned,
                 .tenants = seed % 4 == 1,
                 .bulk = seed % 3 == 1});
    world.live(kSteps);
    world.wind_down();
    n_answered += world.n_answered();
    if (HasFailure()) return;
  }
  EXPECT_GT(n_answered, kTrials * 100);
}

}  // namespace
}  // namespace billow::scheduler
