#include "scheduler/model_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "base/saturating.h"

namespace billow::scheduler {
namespace {

// Returns a - b, or 0 if b is larger.
uint64_t above(uint64_t a, uint64_t b) { return saturating_subtract(a, b); }

// Returns what this much work of the request costs its tenant.
double turn_cost(const Request& request, uint64_t n_tokens) {
  return static_cast<double>(n_tokens) / request.weight;
}

}  // namespace

std::string memory_refusal(uint64_t needed_bytes, uint64_t available_bytes) {
  return fmt::format("model requires more system memory ({}) than is available ({})",
                     format_byte_size(needed_bytes), format_byte_size(available_bytes));
}

std::string runner_key(const RunnerParts& parts) {
  std::string key = parts.path;
  const auto append = [&](std::string_view kind, const std::vector<std::string>& values) {
    // The length marks the end of each value, so that values may contain any text.
    for (const std::string& value : values)
      key += fmt::format("\n{} {} {}", kind, value.size(), value);
  };
  append("adapter", parts.adapters);
  append("projector", parts.projectors);
  append("draft", parts.drafts);
  append("option", parts.options);
  // Appends the length of the path, because a path with line ends may look like another key.
  if (key.find('\n') != std::string::npos) key += fmt::format("\n{}", parts.path.size());
  return key;
}

const Ticket* ModelState::first() const {
  const Arrival barrier = std::min(stop_barrier, drain_barrier);
  const Ticket* next = nullptr;
  double least = 0.0;
  for (const auto& [turn, ticket] : waiting) {
    if (turn.arrival >= barrier || turn.is_bulk != waiting.begin()->first.is_bulk) break;
    const double account = turns.account(ticket.request.tenant);
    if (next != nullptr && account >= least) continue;
    next = &ticket;
    least = account;
    if (turns.empty()) break;
  }
  return next;
}

Ticket ModelState::take_head() {
  const auto at = waiting.find(head()->turn());
  Ticket ticket = std::move(at->second);
  waiting.erase(at);
  return ticket;
}

void ModelState::add_waiting(Ticket ticket) {
  const auto has_requests = [this](const std::string& tenant) {
    const auto is_of = [&](const auto& entry) { return entry.second.request.tenant == tenant; };
    return std::ranges::any_of(waiting, is_of) || std::ranges::any_of(running, is_of);
  };
  const std::string& tenant = ticket.request.tenant;
  const bool has_tenants = !turns.empty() || !tenant.empty();
  if (has_tenants && !has_requests(tenant)) turns.join(tenant, has_requests);
  const Turn turn = ticket.turn();
  waiting.emplace(turn, std::move(ticket));
}

void ModelState::begin_turn(Ticket& ticket) {
  const Request& request = ticket.request;
  ticket.has_turn = !turns.empty();
  if (ticket.has_turn) turns.begin(request.tenant, turn_cost(request, request.work));
}

void ModelState::end_turn(Ticket& ticket, std::optional<uint64_t> n_tokens) {
  if (!std::exchange(ticket.has_turn, false)) return;
  const Request& request = ticket.request;
  turns.end(request.tenant, turn_cost(request, request.work),
            turn_cost(request, n_tokens.value_or(request.work)));
}

const Ticket* ModelState::head() const {
  const Ticket* ticket = first();
  return ticket != nullptr && ticket->request.is_bulk && holds_bulk_back ? nullptr : ticket;
}

size_t ModelState::n_waiting_interactive() const {
  const auto first_bulk = waiting.lower_bound({.is_bulk = true, .arrival = 0});
  return static_cast<size_t>(std::distance(waiting.begin(), first_bulk));
}

bool ModelState::can_join(const Ticket& more, size_t max_parallel) const {
  if (running.empty()) return true;
  const size_t n_reserved = more.request.is_bulk ? std::max<size_t>(max_parallel / 4, 1) : 0;
  // A suspect must run alone.
  return running.size() + n_reserved < max_parallel && !more.is_suspect() &&
         !running.begin()->second.is_suspect();
}

uint64_t ModelState::floor_bytes(const Ticket* more) const {
  uint64_t reserved = 0;
  uint64_t adapter_bytes = 0;
  std::set<std::string_view> adapters;
  const auto reserve = [&](const Ticket& ticket) {
    const ModelCost& cost = ticket.request.cost;
    reserved =
        is_embedding ? std::max(reserved, cost.kv_bytes) : saturating_add(reserved, cost.kv_bytes);
    if (cost.adapter_bytes != 0 && adapters.insert(cost.adapters).second)
      adapter_bytes = saturating_add(adapter_bytes, cost.adapter_bytes);
  };
  for (const auto& [id, ticket] : running) reserve(ticket);
  // A request may exceed its reservation. Without requests, everything above the kept memory is
  // idle.
  const uint64_t kept = saturating_add(fixed_bytes, scratch_bytes);
  const uint64_t expected = saturating_add(saturating_add(kept, reserved), adapter_bytes);
  const uint64_t grown = running.empty() ? 0 : above(above(held_bytes, cached_bytes), expected);
  uint64_t scratch = scratch_bytes;
  if (more != nullptr) {
    reserve(*more);
    scratch = std::max(scratch, more->request.cost.scratch_bytes);
  }
  const uint64_t taken = saturating_add(saturating_add(fixed_bytes, scratch), reserved);
  return saturating_add(saturating_add(taken, adapter_bytes),
                        saturating_add(grown, promised_bytes));
}

uint64_t ModelState::lacking_bytes(const Ticket& more) const {
  const bool reserves = more.request.is_bulk && !running.empty();
  const uint64_t reserve = reserves ? more.request.cost.kv_bytes : 0;
  return above(saturating_add(floor_bytes(&more), reserve), asked_bytes);
}

uint64_t ModelState::idle_bytes() const {
  return phase == Phase::kReady ? above(asked_bytes, floor_bytes()) : 0;
}

uint64_t ModelState::returning_bytes() const {
  if (phase == Phase::kUnloading) return granted_bytes;
  return ask_is_pending ? granted_bytes - asked_bytes : 0;
}

bool ModelState::can_leave() const {
  if (phase != Phase::kReady || !running.empty()) return false;
  const Ticket* first = head();
  return first == nullptr || lacking_bytes(*first) > 0;
}

void ModelState::release(RequestId id, Time now) {
  const auto found = running.find(id);
  const ModelCost cost = std::move(found->second.request.cost);
  running.erase(found);
  const bool is_shared = std::ranges::any_of(running, [&](const auto& other) {
    return other.second.request.cost.adapters == cost.adapters;
  });
  const uint64_t bytes = saturating_add(cost.kv_bytes, is_shared ? 0 : cost.adapter_bytes);
  const uint64_t in_use =
      above(above(held_bytes, cached_bytes), saturating_add(fixed_bytes, scratch_bytes));
  const uint64_t freed = running.empty() ? in_use : is_embedding ? 0 : std::min(in_use, bytes);
  cached_bytes += freed;
  wanted_bytes =
      above(wanted_bytes, freed);  // other requests of the model wait for the freed memory
  if (!running.empty()) return;
  wanted_bytes = promised_bytes = 0;
  is_asking = false;
  expires_at = later(now, session);
}

void ModelState::clear_runner() {
  phase = Phase::kAbsent;
  granted_bytes = asked_bytes = fixed_bytes = scratch_bytes = held_bytes = cached_bytes = 0;
  wanted_bytes = promised_bytes = 0;
  ask_is_pending = is_asking = false;
  expires_at = kNever;
  drain_barrier = drained_for = kNoBarrier;
  n_loaded = 0;
}

void ModelState::clear_runner_for_next(Time now) {
  kept_until = is_stopping() ? Time{} : later(now, session);
  clear_runner();
}

}  // namespace billow::scheduler
