// Several answers to one request: n choices for each of its prompts. Any thread; many at once.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>

#include "api/answer.h"
#include "api/generation.h"
#include "api/generator.h"
#include "metrics/trace.h"

namespace billow::api {

inline constexpr size_t kMaxChoices = 128;   // of a request, over all its prompts
inline constexpr size_t kChoicesAtOnce = 8;  // that are written at a time

// Writes n_each answers to each of `prompts`; the answer j of prompt i is choice i * n_each + j. A
// seed of the request is that of the first answer, and the others count up from it. All calls of
// the sink come from this thread; found() and sized() once. The first answer to a prompt runs ahead
// until it writes, so that the others find its prompt known. Where one fails, the others end, and
// this throws what it threw. REQUIRES: n_each and prompts are not 0, and at most kMaxChoices in
// all.
void run_choices(Generator& generator, std::span<const GenerationRequest> prompts, size_t n_each,
                 Sink& sink, std::stop_token stop, metrics::Trace& trace);

}  // namespace billow::api
