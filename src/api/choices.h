// Generates several answers to one request: n choices for each of its prompts. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>

#include "api/answer.h"
#include "api/generation.h"
#include "api/generator.h"
#include "metrics/trace.h"

namespace billow::api {

inline constexpr size_t kMaxChoices = 128;   // per request, over all its prompts
inline constexpr size_t kChoicesAtOnce = 8;  // generated in parallel

// Generates n_each answers to each of `prompts`. Answer j of prompt i is choice i * n_each + j. The
// seed of the request or of the model is the seed of the first answer; each further answer adds 1.
// Calls the functions of the sink on the caller's thread, found() and sized() only once, and
// begun() never. The first answer to a prompt starts alone. The others start when it has begun, so
// that they find the prompt cached. If one choice fails, all end and this function throws its
// error. REQUIRES: n_each and prompts are not 0, and there are at most kMaxChoices choices.
void run_choices(Generator& generator, std::span<const GenerationRequest> prompts, size_t n_each,
                 Sink& sink, std::stop_token stop, metrics::Trace& trace);

}  // namespace billow::api
