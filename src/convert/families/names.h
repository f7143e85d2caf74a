// Tensor rules and row operations that several families share. Constants, thread-safe.
#pragma once

#include "convert/language_family.h"

namespace billow::convert {

// Embedding, output, norms before both sub-layers, heads, and a gated feed-forward part.
TensorRules decoder_names();
// Query and key heads whose rows are reordered in pairs, for architectures that rotate neighbours.
TensorRules paired_names();
TensorRules head_norm_names();  // q_norm, k_norm
// Experts (separate or stacked) under "mlp", the router, and the correction bias of the router.
TensorRules expert_names();
TensorRules shared_expert_names();
TensorRules mixtral_names();        // experts under "block_sparse_moe"
TensorRules latent_names();         // latent attention: DeepSeek
TensorRules post_norm_names();      // norms only after the sub-layers: OLMo 2
TensorRules sandwich_norm_names();  // norms before and after the sub-layers: Gemma
TensorRules mamba_names();          // first version, under "mamba" or "mixer"
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
void latent_keys(Shaping& shaping);  // of DeepSeek's joint matrix, transposed per head
void latent_values(Shaping& shaping);
// Separates heads that store query, key and value together: all queries, all keys, all values.
void joint_heads(Shaping& shaping);

}  // namespace billow::convert
