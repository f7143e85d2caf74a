// The filters that reduce the candidates for the next token, and the final draw. Free functions
// without state. Each uses the softmax probabilities of the given candidates, at temperature 1
// unless its comment differs. As in llama.cpp, the temperature comes after the filters. REQUIRES of
// all: at least one candidate, finite logits, no token twice. Each leaves at least one candidate.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/sampling/logit_scan.h"
#include "engine/sampling/random.h"

namespace billow::engine {

// Returns the sum of exp(logit - max logit), at least 1.
double total_weight(std::span<const Candidate> candidates) noexcept;

// Nucleus sampling (Holtzman et al. 2019, arXiv 1904.09751): keeps the fewest best candidates whose
// weights exp(logit - max logit) reach `weight`, sorted best first. If all together do not reach
// it, returns false and keeps all.
bool keep_top_weight(std::vector<Candidate>& candidates, double weight);

// Calls keep_top_weight() for the share `p` of the candidates' probability. 1 and above changes
// nothing.
void keep_top_p(std::vector<Candidate>& candidates, float p);

// Locally typical sampling (Meister et al. 2022, arXiv 2202.00666): keeps the candidates whose
// surprise -ln p_i is nearest to the entropy, until their probability exceeds `p`, nearest first. 1
// and above changes nothing.
void keep_typical(std::vector<Candidate>& candidates, float p);

// Keeps probabilities of at least `p` times the max (Nguyen et al. 2024, arXiv 2407.01082). These
// are logits of at least the max + ln p. Keeps the order.
void keep_min_p(std::vector<Candidate>& candidates, float p);

struct Drawn {
  size_t index = 0;          // in the candidates
  double probability = 0.0;  // of the drawn candidate, above 0
};

// Draws one candidate from softmax(logits / temperature). `weights` is scratch.
Drawn draw(std::span<const Candidate> candidates, float temperature, Random& random,
           std::vector<float>& weights);

}  // namespace billow::engine
