// The filters that thin out the candidates for the next token, and the final draw. Free functions
// without state; each sees the probabilities of the softmax over the candidates it is given, at
// temperature 1 unless it says otherwise, as in llama.cpp, where the temperature comes after the
// filters. REQUIRES of all: at least one candidate, finite logits, no token twice. Each leaves at
// least one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/sampling/logit_scan.h"
#include "engine/sampling/random.h"

namespace billow::engine {

// The sum of exp(logit - greatest logit), at least 1.
double total_weight(std::span<const Candidate> candidates) noexcept;

// Nucleus sampling (Holtzman et al. 2019, arXiv 1904.09751): keeps the fewest best candidates whose
// weights exp(logit - greatest logit) reach `weight`, sorted best first. False, and all are kept,
// when all together do not.
bool keep_top_weight(std::vector<Candidate>& candidates, double weight);

// keep_top_weight for the share `p` of the candidates' probability; 1 and above keeps all as they
// are.
void keep_top_p(std::vector<Candidate>& candidates, float p);

// Locally typical sampling (Meister et al. 2022, arXiv 2202.00666): keeps those whose surprise -ln
// p_i is nearest to the entropy until their probability exceeds `p`, nearest first; 1 and above
// keeps all as they are.
void keep_typical(std::vector<Candidate>& candidates, float p);

// Keeps probabilities of at least `p` times the greatest (Nguyen et al. 2024, arXiv 2407.01082),
// that is logits of at least the greatest + ln p. Keeps the order.
void keep_min_p(std::vector<Candidate>& candidates, float p);

struct Drawn {
  size_t index = 0;          // into the candidates
  double probability = 0.0;  // it had, above 0
};

// Draws one candidate from softmax(logits / temperature). `weights` is scratch.
Drawn draw(std::span<const Candidate> candidates, float temperature, Random& random,
           std::vector<float>& weights);

}  // namespace billow::engine
