#include "gguf/tensor_type.h"

#include <gtest/gtest.h>

namespace billow::gguf {
namespace {

TEST(TensorType, TableIsSortedAndComplete) {
  uint32_t n_known = 0;
  for (uint32_t id = 0; id < 1000; ++id) {
    const TensorType* type = find_tensor_type(id);
    if (type == nullptr) continue;
    ++n_known;
    EXPECT_EQ(type->id, id);
    EXPECT_GT(type->group_len, 0u);
    EXPECT_GT(type->group_bytes, 0u);
  }
  EXPECT_EQ(n_known, 35u);
}

TEST(TensorType, KnowsBlockSizes) {
  const TensorType* q4_k = find_tensor_type(12);
  ASSERT_NE(q4_k, nullptr);
  EXPECT_EQ(q4_k->name, "Q4_K");
  EXPECT_EQ(q4_k->group_len, 256u);
  EXPECT_EQ(q4_k->group_bytes, 144u);
}

TEST(TensorType, ReturnsNullForRemovedAndUnknownNumbers) {
  for (const uint32_t id : {4u, 5u, 31u, 33u, 36u, 38u, 43u, 4294967295u}) {
    EXPECT_EQ(find_tensor_type(id), nullptr) << id;
  }
  EXPECT_EQ(tensor_type_name(30), "BF16");
  EXPECT_EQ(tensor_type_name(4711), "type 4711");
}

}  // namespace
}  // namespace billow::gguf
