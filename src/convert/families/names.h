// Names that several families share, as rules of tensors, and what is done to their rows. Constant;
// any thread.
#pragma once

#include "convert/language_family.h"

namespace billow::convert {

// Embedding, output, norms before both sub-layers, heads, and a gated feed-forward part.
TensorRules decoder_names();
// Query and key heads with their rows in pairs, as architectures have it that rotate neighbours.
TensorRules paired_names();
TensorRules head_norm_names();  // q_norm, k_norm
// Experts, one by one or stacked, under "mlp"; the router; what corrects its choice.
TensorRules expert_names();
TensorRules shared_expert_names();
TensorRules mixtral_names();        // experts under "block_sparse_moe"
TensorRules latent_names();         // latent attention: DeepSeek
TensorRules post_norm_names();      // norms behind sub-layers, none before them: OLMo 2
TensorRules sandwich_norm_names();  // norms before and behind: Gemma
TensorRules mamba_names();          // of the first kind, under "mamba" or "mixer"
TensorRules mamba2_names();
TensorRules predicting_names();  // blocks that predict further tokens

// --- shaping ---
void pair_heads(Shaping& shaping);  // head_dim rows each
void first_half(Shaping& shaping);  // of the rows of each matrix
void second_half(Shaping& shaping);
void even_rows(Shaping& shaping);
void odd_rows(Shaping& shaping);
void turned(Shaping& shaping);
void turned_first_half(Shaping& shaping);
void turned_second_half(Shaping& shaping);
void minus_exp(Shaping& shaping);
void without_middle(Shaping& shaping);  // [n][1][k] becomes [n][k]
void as_column(Shaping& shaping);       // [n] becomes [n][1]
void minus_exp_column(Shaping& shaping);
void flat(Shaping& shaping);
void latent_keys(Shaping& shaping);  // of the joint matrix of DeepSeek, turned by head
void latent_values(Shaping& shaping);
// Heads with query, key and value side by side become all queries, all keys, all values.
void joint_heads(Shaping& shaping);

}  // namespace billow::convert
